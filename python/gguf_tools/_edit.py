"""Calls that check, compare, edit and split files."""

from __future__ import annotations

import os

from ._calls import call, hub, size, text_path, text_paths, texts
from ._options import adapters


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
    """Changes the metadata of a file.

    Renames come first, then removals, then values. Without ``output`` the file itself is changed: in place if the length of its
    header stays the same (free space from ``header_slack`` makes this possible), otherwise through a new file that replaces it.

    Args:
        file: The GGUF file.
        values: New values by key. A plain value gets the type of the existing or known key, otherwise ``i32``, ``f32``, ``bool`` or
            ``str``. To choose a type, use ``{"type": "u32", "value": 1}``.
        unset: Key or keys to remove. A name that ends with ``*`` stands for all keys with that prefix.
        rename: New names by old name. Both may end with ``*``.
        from_json: A file of ``gguf-inspect export-metadata`` with more values.
        chat_template: Text of a new chat template.
        output: A new file to write, instead of changing ``file``.
        overwrite: Overwrite an existing output.
        header_slack: Free space to leave in the header, in bytes.
        dry_run: Report the changes without writing.

    Returns:
        A dict with ``changes`` (each with ``key``, ``old`` and ``new``), ``in_place``, ``written``, ``slack`` and ``file_bytes``.

    Raises:
        GgufError: The file cannot be read or written, a key does not exist, or a value does not fit its type.

    Example:
        >>> gt.edit_metadata("model.gguf", {"general.name": "My model"}, unset=["general.tags"])["in_place"]
    """
    values = {key: _json_value(value) for key, value in (values or {}).items()}
    if chat_template is not None:
        values["tokenizer.chat_template"] = {"type": "str", "value": chat_template}
    options = {
        "file": os.fsdecode(file),
        "values": values,
        "unset": texts(unset),
        "rename": [{"old": old, "new": new} for old, new in (rename or {}).items()],
        "from": text_path(from_json),
        "output": text_path(output),
        "force": overwrite,
        "header_slack": header_slack,
        "dry_run": dry_run,
    }
    return call("edit_metadata", options)


def export_metadata(file, *, prefix=()) -> dict:
    """Returns the metadata with types, in the form that :func:`edit_metadata` takes as ``values``.

    Args:
        file: The GGUF file.
        prefix: Limit the result to keys that begin with this text, or with one of these.

    Returns:
        A dict ``{KEY: {"type": TYPE, "value": VALUE}}``.

    Raises:
        GgufError: The file cannot be read.

    Example:
        >>> gt.edit_metadata("new.gguf", gt.export_metadata("old.gguf", prefix="tokenizer."))
    """
    return call("export_metadata", {"file": os.fsdecode(file), "prefix": texts(prefix)})


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

    Args:
        file: The GGUF file.
        prefix: Path of the shards without number and ending.
        max_size: Maximum size of the tensor data of a shard, in bytes or as a text such as ``"2GB"``.
        max_tensors: Maximum number of tensors of a shard.
        no_tensor_first: Write a first shard without tensors.
        overwrite: Overwrite existing shards.
        dry_run: Report the shards without writing.
        progress: Called with the bytes that are done and the total.

    Returns:
        A dict for each shard with ``file``, ``tensors`` and ``file_bytes``.

    Raises:
        GgufError: The file cannot be read, or a shard cannot be written.
        ValueError: Neither ``max_size`` nor ``max_tensors`` is given.

    Example:
        >>> gt.split("model.gguf", "shards/model", max_size="2GB")
    """
    if max_size is None and max_tensors is None:
        raise ValueError("split: expected max_size or max_tensors")
    options = {
        "file": os.fsdecode(file),
        "prefix": os.fsdecode(prefix),
        "max_bytes": size(max_size),
        "max_tensors": max_tensors,
        "no_tensor_first": no_tensor_first,
        "force": overwrite,
        "dry_run": dry_run,
    }
    return call("split", options, progress)["files"]


def merge(shards, output, *, overwrite=False, dry_run=False, progress=None) -> dict:
    """Merges the shards of a model into one file.

    Args:
        shards: One of the shards, or a list of all.
        output: The file to write.
        overwrite: Overwrite an existing file.
        dry_run: Report the file without writing.
        progress: Called with the bytes that are done and the total.

    Returns:
        A dict with ``file``, ``tensors`` and ``file_bytes``.

    Raises:
        GgufError: A shard is missing, or the file cannot be written.

    Example:
        >>> gt.merge("shards/model-00001-of-00003.gguf", "model.gguf")
    """
    options = {
        "shards": text_paths(shards),
        "output": os.fsdecode(output),
        "force": overwrite,
        "dry_run": dry_run,
    }
    return call("merge", options, progress)["files"][0]


def change_endian(file, output, order, *, overwrite=False, dry_run=False, progress=None) -> list[dict]:
    """Writes a file in another byte order, tensor data included.

    Args:
        file: The GGUF file, or any shard of a split model.
        output: The file to write.
        order: ``"little"`` or ``"big"``.
        overwrite: Overwrite an existing file.
        dry_run: Report the files without writing.
        progress: Called with the bytes that are done and the total.

    Returns:
        A dict for each file with ``file``, ``tensors`` and ``file_bytes``.

    Raises:
        GgufError: The file cannot be read, or has a type that cannot be converted.

    Example:
        >>> gt.change_endian("model.gguf", "model-big.gguf", "big")
    """
    options = {
        "file": os.fsdecode(file),
        "output": os.fsdecode(output),
        "order": order,
        "force": overwrite,
        "dry_run": dry_run,
    }
    return call("change_endian", options, progress)["files"]


def extract(file, tensors, output, *, f32=False, overwrite=False, dry_run=False, progress=None) -> dict:
    """Writes tensors to a file for other programs.

    Args:
        file: The GGUF file.
        tensors: Name or names of the tensors.
        output: The file to write: ``.npy`` for one tensor, or ``.safetensors``.
        f32: Convert all tensors to float32. Quantized tensors always are.
        overwrite: Overwrite an existing file.
        dry_run: Report the file without writing.
        progress: Called with the bytes that are done and the total.

    Returns:
        A dict with ``file``, ``file_bytes``, ``written`` and ``tensors``.

    Raises:
        GgufError: A tensor does not exist, or the file cannot be written.

    Example:
        >>> gt.extract("model.gguf", ["token_embd.weight"], "embeddings.npy")
    """
    options = {
        "file": os.fsdecode(file),
        "tensors": texts(tensors),
        "output": os.fsdecode(output),
        "f32": f32,
        "force": overwrite,
        "dry_run": dry_run,
    }
    return call("extract", options, progress)


def verify(
    file, *, against=None, lora=(), lora_tokenizer=False, only=(), strict=False, threads=None, progress=None
) -> dict:
    """Checks that a file is valid or, with ``against``, that it matches its source.

    Args:
        file: The GGUF file, or any shard of a split model.
        against: The source: a checkpoint folder, ``hf://OWNER/MODEL`` or a GGUF file.
        lora: LoRA adapters that were merged into the source, as in :func:`convert`: adapter files for a GGUF source, folders or
            addresses for a checkpoint.
        lora_tokenizer: The file has the tokenizer and chat template of the adapter.
        only: Limit the checks to one or several of ``structure``, ``blocks``, ``loader``, ``architecture``, ``tokenizer``,
            ``template``, ``file-type`` and ``source``.
        strict: Treat warnings as errors.
        threads: Number of threads. Default: one per core.
        progress: Called with the bytes that are done and the total.

    Returns:
        A dict with ``good``, ``errors``, ``warnings`` and ``checks``, each with its ``findings``.

    Raises:
        GgufError: A file cannot be read. An invalid file that can be read raises no error.

    Example:
        >>> gt.verify("model.gguf", against="Llama-3.2-1B")["good"]
    """
    options = {
        "file": os.fsdecode(file),
        "against": text_path(against),
        "adapters": adapters(lora),
        "lora_tokenizer": lora_tokenizer,
        "only": texts(only),
        "strict": strict,
        "threads": threads,
    }
    return call("verify", {"options": options, "hub": hub()}, progress)


def diff(a, b, *, headers=False, progress=None) -> dict:
    """Compares the keys and tensors of two files.

    Args:
        a: A GGUF file.
        b: Another GGUF file.
        headers: Compare without reading the data of tensors.
        progress: Called with the bytes that are done and the total.

    Returns:
        A dict with ``equal``, ``keys`` and ``tensors``. The error of a tensor is ``sqrt(sum (b - a)^2 / sum a^2)``.

    Raises:
        GgufError: A file cannot be read.

    Example:
        >>> [key["key"] for key in gt.diff("old.gguf", "new.gguf")["keys"]]
    """
    return call("diff", {"a": os.fsdecode(a), "b": os.fsdecode(b), "headers": headers}, progress)


def hash(files, *, tensors=False, progress=None) -> dict[str, str]:
    """Computes SHA-256 digests as ``gguf-inspect hash`` prints them.

    Args:
        files: A file or several files.
        tensors: Compute the digest of each tensor too.
        progress: Called with the bytes that are done and the total.

    Returns:
        Digests in hexadecimal by name.

    Raises:
        GgufError: A file cannot be read.

    Example:
        >>> gt.hash("model.gguf")
    """
    return call("hash", {"files": text_paths(files), "tensors": tensors}, progress)


def summary(path) -> dict:
    """Summarizes a file, without reading its weights.

    Args:
        path: A GGUF file, or any shard of a split model.

    Returns:
        A dict with the model, size, types, origin, context length, tokenizer, prompt of one message, memory and ``findings``.

    Raises:
        GgufError: The file cannot be read.

    Example:
        >>> gt.summary("model.gguf")["findings"]
    """
    return call("summary", {"file": os.fsdecode(path)})


def fit(path, *, memory=None, context=(), parallel=1, kv_type="f16", batch=512, also=()) -> dict:
    """Estimates the memory of a file, or of each file of a folder, when it runs in llama.cpp.

    Args:
        path: A GGUF file, or a folder of files.
        memory: Available memory, in bytes or as a text such as ``"16GiB"``. The result then states the longest context that fits.
        context: Context length in tokens, or a list. Default: the training context length.
        parallel: Number of sequences at the same time.
        kv_type: Type of the KV cache, for example ``"q8_0"``.
        batch: Tokens of a batch.
        also: Projectors and draft models to load too.

    Returns:
        A dict with the memory of each file and, with ``memory``, ``best``: the largest file that fits.

    Raises:
        GgufError: A file cannot be read.
        ValueError: A size is invalid.

    Example:
        >>> gt.fit("quants", memory="16GiB", context=8192)["best"]
    """
    options = {
        "path": os.fsdecode(path),
        "memory": size(memory),
        "context": [context] if isinstance(context, int) else list(context),
        "parallel": parallel,
        "kv_type": kv_type,
        "batch": batch,
        "with": text_paths(also),
    }
    return call("fit", options)
