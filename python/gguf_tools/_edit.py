"""Calls that check, compare, edit and divide files. Options and reports cross to Rust as JSON."""

from __future__ import annotations

import os

from . import _native


def _call(function, options: dict, progress=None):
    import json

    options = {key: value for key, value in options.items() if value is not None}
    report, warnings = function(json.dumps(options), progress)
    if warnings:
        from warnings import warn

        for text in warnings:
            warn(text, stacklevel=3)
    return json.loads(report)


def _path(path):
    return None if path is None else os.fspath(path)


def _paths(paths) -> list:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    return [os.fspath(path) for path in paths]


def _size(size):
    """A number of bytes, or a text such as ``2GB`` or ``500M`` (powers of 1000) or ``16GiB``."""
    if size is None or isinstance(size, int):
        return size
    text = str(size).strip()
    digits = text.rstrip("BKMGTibkmgt ")
    unit = text[len(digits) :].strip().upper()
    powers = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}
    base, unit = (1024, unit[:-2]) if unit.endswith("IB") else (1000, unit[:-1] if unit[-1:] == "B" else unit)
    try:
        return int(float(digits) * base ** powers[unit])
    except (KeyError, ValueError):
        raise ValueError(f"size: expected a number of bytes such as 2GB, found {size!r}") from None


def _json_value(value):
    """A metadata value in JSON: bytes and numbers that JSON lacks in the form of ``export-metadata``."""
    if isinstance(value, (bytes, bytearray)):
        return {"type": "str", "value": {"bytes": list(value)}}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        text = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return {"type": "f32", "value": text}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    return value


def edit_metadata(
    file,
    values=None,
    *,
    unset=(),
    rename=None,
    from_json=None,
    chat_template=None,
    output=None,
    overwrite=False,
    header_slack=None,
    dry_run=False,
) -> dict:
    """Changes the metadata of a file and returns the changes.

    ``values`` maps keys to values: plain ones, which get the type of the existing or known key, else ``i32``, ``f32``, ``bool``
    or ``str``, or ``{"type": "u32", "value": 1}``. ``unset`` lists keys to remove and ``rename`` maps old names to new ones;
    names that end with ``*`` stand for all keys with that prefix. ``from_json`` is a file of ``gguf-inspect export-metadata``,
    ``chat_template`` the text of a template. Renames come first, then removals, then values.

    Without ``output`` the file itself is changed: in place if the length of its header stays the same, which free space of
    ``header_slack`` bytes makes possible, otherwise through a new file that replaces it. ``dry_run`` writes nothing.

    The report has ``changes`` (``key``, ``old``, ``new``), ``in_place``, ``written``, ``slack`` and ``file_bytes``.
    """
    values = {key: _json_value(value) for key, value in (values or {}).items()}
    if chat_template is not None:
        values["tokenizer.chat_template"] = {"type": "str", "value": chat_template}
    options = {
        "file": os.fspath(file),
        "values": values,
        "unset": [unset] if isinstance(unset, str) else list(unset),
        "rename": [{"old": old, "new": new} for old, new in (rename or {}).items()],
        "from": _path(from_json),
        "output": _path(output),
        "force": overwrite,
        "header_slack": header_slack,
        "dry_run": dry_run,
    }
    return _call(_native.edit_metadata, options)


def export_metadata(file, *, prefix=()) -> dict:
    """Returns the metadata with types, ``{KEY: {"type": TYPE, "value": VALUE}}``, which :func:`edit_metadata` takes as
    ``values``. ``prefix`` limits it to keys with this beginning, or one of these."""
    prefix = [prefix] if isinstance(prefix, str) else list(prefix)
    return _call(_native.export_keys, {"file": os.fspath(file), "prefix": prefix})


def split(
    file,
    prefix,
    *,
    max_size=None,
    max_tensors=None,
    no_tensor_first=False,
    overwrite=False,
    dry_run=False,
    progress=None,
) -> list[dict]:
    """Splits a file into shards ``PREFIX-00001-of-00003.gguf``, byte-identical to those of ``llama-gguf-split``.

    ``max_size`` limits the tensor data of a shard, in bytes or as a text such as ``2GB``, and ``max_tensors`` its tensors.
    Returns a dict for each file: ``file``, ``tensors``, ``file_bytes``.
    """
    if max_size is None and max_tensors is None:
        raise ValueError("split: expected max_size or max_tensors")
    options = {
        "file": os.fspath(file),
        "prefix": os.fspath(prefix),
        "max_bytes": _size(max_size),
        "max_tensors": max_tensors,
        "no_tensor_first": no_tensor_first,
        "force": overwrite,
        "dry_run": dry_run,
    }
    return _call(_native.split_file, options, progress)["files"]


def merge(shards, output, *, overwrite=False, dry_run=False, progress=None) -> dict:
    """Merges the shards of a model into one file. ``shards`` is one of them, or a list. Returns a dict with ``file``,
    ``tensors`` and ``file_bytes``."""
    options = {
        "shards": _paths(shards),
        "output": os.fspath(output),
        "force": overwrite,
        "dry_run": dry_run,
    }
    return _call(_native.merge_shards, options, progress)["files"][0]


def change_endian(file, output, order, *, overwrite=False, dry_run=False, progress=None) -> list[dict]:
    """Writes a file in the byte order ``"little"`` or ``"big"``, tensor data included. Returns a dict for each file, as
    :func:`split`."""
    options = {
        "file": os.fspath(file),
        "output": os.fspath(output),
        "order": order,
        "force": overwrite,
        "dry_run": dry_run,
    }
    return _call(_native.change_endian, options, progress)["files"]


def extract(file, tensors, output, *, f32=False, overwrite=False, dry_run=False, progress=None) -> dict:
    """Writes tensors to a file for other programs: ``.npy`` (one tensor) or ``.safetensors``. Quantized tensors become float32;
    ``f32`` converts the others too. Returns a dict with ``file``, ``file_bytes``, ``written`` and ``tensors``."""
    options = {
        "file": os.fspath(file),
        "tensors": [tensors] if isinstance(tensors, str) else list(tensors),
        "output": os.fspath(output),
        "f32": f32,
        "force": overwrite,
        "dry_run": dry_run,
    }
    return _call(_native.extract_tensors, options, progress)


def verify(file, *, against=None, only=(), strict=False, threads=None, progress=None) -> dict:
    """Checks that a file is valid or, with ``against``, that it matches its source: a checkpoint folder, ``hf://OWNER/MODEL`` or
    a GGUF file.

    ``only`` limits the checks (``structure``, ``blocks``, ``architecture``, ``tokenizer``, ``template``, ``file-type``,
    ``source``), and ``strict`` treats warnings as errors. The report has ``good``, ``errors``, ``warnings`` and ``checks``, each
    with its ``findings``.
    """
    options = {
        "file": os.fspath(file),
        "against": _path(against),
        "only": [only] if isinstance(only, str) else list(only),
        "strict": strict,
        "threads": threads,
    }
    return _call(_native.verify_file, options, progress)


def diff(a, b, *, headers=False, progress=None) -> dict:
    """Compares the keys and tensors of two files; with ``headers`` without their data. The report has ``equal``, ``keys`` and
    ``tensors``; the error of a tensor is ``sqrt(sum (b - a)^2 / sum a^2)``."""
    return _call(_native.diff_files, {"a": os.fspath(a), "b": os.fspath(b), "headers": headers}, progress)


def hash(files, *, tensors=False, progress=None) -> dict[str, str]:
    """Computes SHA-256 digests of one or more files and, with ``tensors``, of their tensors, as ``gguf-inspect hash``
    prints them: names to digests."""
    return _call(_native.hash_files, {"files": _paths(files), "tensors": tensors}, progress)


def fit(path, *, memory=None, context=(), parallel=1, kv_type="f16", batch=512, also=()) -> dict:
    """Estimates the memory of a file, or of each file of a folder, when it runs in llama.cpp.

    ``memory`` is a number of bytes or a text such as ``16GiB``; the report then states the longest context that fits, and
    ``best``, the largest file that fits. ``context`` is a number of tokens or a list (default: the length that the model was
    trained for), and ``also`` lists projectors and draft models to load too.
    """
    options = {
        "path": os.fspath(path),
        "memory": _size(memory),
        "context": [context] if isinstance(context, int) else list(context),
        "parallel": parallel,
        "kv_type": kv_type,
        "batch": batch,
        "with": _paths(also),
    }
    return _call(_native.fit_memory, options)
