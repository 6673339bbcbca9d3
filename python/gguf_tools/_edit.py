"""Calls that check, compare, edit and split files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ._calls import call, hub, text_paths, texts
from ._options import CopyOptions, EditOptions, ExtractOptions, FitOptions, SplitOptions, VerifyOptions, keywords, options
from ._results import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Literal

    from typing_extensions import Unpack

    from ._options import Paths, Progress, StrPath, Texts


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _json_value(value):
    """A metadata value in JSON: bytes and numbers that JSON lacks in the form of ``export-metadata``."""
    if isinstance(value, (bytes, bytearray)):
        return {"type": "str", "value": {"bytes": list(value)}}
    if isinstance(value, float) and str(value) in _NOT_FINITE:
        return {"type": "f32", "value": _NOT_FINITE[str(value)]}
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    return value


def _report(name: str, kind: type, given, **files):
    chosen = options(name, kind, given, has_hub=False)
    return call(name, {**files, **chosen}, given.get("progress"))


@keywords(EditOptions)
def edit_metadata(file: StrPath, values: Mapping[str, Any] | None = None, **given: Unpack[EditOptions]) -> Report:
    """Changes the metadata of a file.

    Renames come first, then removals, then values. Without ``output`` the file itself is changed: in place if the length of its
    header stays the same (free space from ``header_slack`` makes this possible), otherwise through a new file that replaces it.

    Args:
        file: The GGUF file.
        values: New values by key. A plain value gets the type of the existing or known key, otherwise ``i32``, ``f32``, ``bool`` or
            ``str``. To choose a type, use ``{"type": "u32", "value": 1}``.

    Returns:
        A :class:`Report` with ``changes`` (each with ``key``, ``old`` and ``new``), ``in_place``, ``written``, ``slack`` and ``file_bytes``.

    Raises:
        GgufError: The file cannot be read or written, a key does not exist, or a value does not fit its type.

    Example:
        >>> gt.edit_metadata("model.gguf", {"general.name": "My model"}, unset=["general.tags"]).in_place
    """
    chosen = options("edit_metadata", EditOptions, given, has_hub=False)
    values = {key: _json_value(value) for key, value in (values or {}).items()}
    if given.get("chat_template") is not None:
        values["tokenizer.chat_template"] = {"type": "str", "value": given["chat_template"]}
    return call("edit_metadata", {"file": os.fsdecode(file), "values": values, **chosen})


def export_metadata(file: StrPath, *, prefix: str | Sequence[str] = ()) -> dict[str, Any]:
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


@keywords(SplitOptions)
def split(file: StrPath, prefix: StrPath, **given: Unpack[SplitOptions]) -> list[Report]:
    """Splits a file into shards ``PREFIX-00001-of-00003.gguf``, byte-identical to those of ``llama-gguf-split``.

    Args:
        file: The GGUF file.
        prefix: Path of the shards without number and ending.

    Returns:
        A :class:`Report` for each shard with ``file``, ``tensors`` and ``file_bytes``.

    Raises:
        GgufError: The file cannot be read, or a shard cannot be written.
        ValueError: Neither ``max_size`` nor ``max_tensors`` is given.

    Example:
        >>> gt.split("model.gguf", "shards/model", max_size="2GB")
    """
    if given.get("max_size") is None and given.get("max_tensors") is None:
        raise ValueError("split: expected max_size or max_tensors")
    return _report("split", SplitOptions, given, file=os.fsdecode(file), prefix=os.fsdecode(prefix))["files"]


@keywords(CopyOptions)
def merge(shards: Paths, output: StrPath, **given: Unpack[CopyOptions]) -> Report:
    """Merges the shards of a model into one file.

    Args:
        shards: One of the shards, or a list of all.
        output: The file to write.

    Returns:
        A :class:`Report` with ``file``, ``tensors`` and ``file_bytes``.

    Raises:
        GgufError: A shard is missing, or the file cannot be written.

    Example:
        >>> gt.merge("shards/model-00001-of-00003.gguf", "model.gguf")
    """
    return _report("merge", CopyOptions, given, shards=text_paths(shards), output=os.fsdecode(output))["files"][0]


@keywords(CopyOptions)
def change_endian(
    file: StrPath, output: StrPath, order: Literal["little", "big"], **given: Unpack[CopyOptions]
) -> list[Report]:
    """Writes a file in another byte order, tensor data included.

    Args:
        file: The GGUF file, or any shard of a split model.
        output: The file to write.
        order: ``"little"`` or ``"big"``.

    Returns:
        A :class:`Report` for each file with ``file``, ``tensors`` and ``file_bytes``.

    Raises:
        GgufError: The file cannot be read, or has a type that cannot be converted.

    Example:
        >>> gt.change_endian("model.gguf", "model-big.gguf", "big")
    """
    files = {"file": os.fsdecode(file), "output": os.fsdecode(output)}
    return _report("change_endian", CopyOptions, given, order=order, **files)["files"]


@keywords(ExtractOptions)
def extract(file: StrPath, tensors: Texts, output: StrPath, **given: Unpack[ExtractOptions]) -> Report:
    """Writes tensors to a file for other programs.

    Args:
        file: The GGUF file.
        tensors: Name or names of the tensors.
        output: The file to write: ``.npy`` for one tensor, or ``.safetensors``.

    Returns:
        A :class:`Report` with ``file``, ``file_bytes``, ``written`` and ``tensors``.

    Raises:
        GgufError: A tensor does not exist, or the file cannot be written.

    Example:
        >>> gt.extract("model.gguf", ["token_embd.weight"], "embeddings.npy")
    """
    files = {"file": os.fsdecode(file), "output": os.fsdecode(output)}
    return _report("extract", ExtractOptions, given, tensors=texts(tensors), **files)


@keywords(VerifyOptions)
def verify(file: StrPath, **given: Unpack[VerifyOptions]) -> Report:
    """Checks that a file is valid or, with ``against``, that it matches its source.

    Args:
        file: The GGUF file, or any shard of a split model.

    Returns:
        A :class:`Report` with ``good``, ``errors``, ``warnings`` and ``checks``, each with its ``findings``.

    Raises:
        GgufError: A file cannot be read. An invalid file that can be read raises no error.

    Example:
        >>> gt.verify("model.gguf", against="Llama-3.2-1B").good
    """
    chosen = options("verify", VerifyOptions, given, has_hub=False)
    both = {"options": {"file": os.fsdecode(file), **chosen}, "hub": hub()}
    return call("verify", both, given.get("progress"))


def diff(a: StrPath, b: StrPath, *, headers: bool = False, progress: Progress | None = None) -> Report:
    """Compares the keys and tensors of two files.

    Args:
        a: A GGUF file.
        b: Another GGUF file.
        headers: Compare without reading the data of tensors.
        progress: Called with the bytes that are done and the total.

    Returns:
        A :class:`Report` with ``equal``, ``keys`` and ``tensors``. The error of a tensor is ``sqrt(sum (b - a)^2 / sum a^2)``.

    Raises:
        GgufError: A file cannot be read.

    Example:
        >>> [key.key for key in gt.diff("old.gguf", "new.gguf")["keys"]]
    """
    return call("diff", {"a": os.fsdecode(a), "b": os.fsdecode(b), "headers": headers}, progress)


def hash(
    files: StrPath | Sequence[StrPath], *, tensors: bool = False, progress: Progress | None = None
) -> dict[str, str]:
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


def summary(path: StrPath, *, html: StrPath | None = None, base: StrPath | None = None, modelfile: StrPath | None = None, overwrite: bool = False) -> Report:
    """Summarizes a file, without reading its weights.

    Args:
        path: A GGUF file, or any shard of a split model.
        html: A page to write: summary, memory by context, types by layer, prompts, metadata and tensors.
        base: The original model. The page then states the error of each tensor, for which the weights of both are read.
        modelfile: A Modelfile for Ollama to write.
        overwrite: Overwrite existing outputs.

    Returns:
        A :class:`Report` with the model, size, types, origin, context length, tokenizer, prompt of one message, memory and ``findings``.

    Raises:
        GgufError: The file cannot be read, or an output cannot be written.

    Example:
        >>> gt.summary("model.gguf").findings
        >>> gt.summary("model.gguf", html="model.html")
    """
    paths = {name: value and os.fsdecode(value) for name, value in (("html", html), ("base", base), ("modelfile", modelfile))}
    return call("summary", {"file": os.fsdecode(path), **paths, "force": overwrite})


@keywords(FitOptions)
def fit(path: StrPath, **given: Unpack[FitOptions]) -> Report:
    """Estimates the memory and speed of a file, of each file of a folder, or of each type of a checkpoint, when it runs in llama.cpp.

    Args:
        path: A GGUF file or its address, a folder of files, a checkpoint folder, or ``hf://OWNER/MODEL``.

    Returns:
        A :class:`Report` with the memory of each file, ``best``, the largest file that fits, and ``suited``, the type that a conversion chooses
        for this memory. Without ``memory``, tokens per second are estimated from the bandwidth of this machine's memory, which is
        measured for a fraction of a second.

    Raises:
        GgufError: A file cannot be read.
        ValueError: A size is invalid.

    Example:
        >>> gt.fit("quants", memory="16GiB", context=8192).best
    """
    chosen = options("fit", FitOptions, given, has_hub=False)
    return call("fit", {"options": {"path": os.fsdecode(path), **chosen}, "hub": hub()})
