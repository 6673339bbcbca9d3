"""Conversions: folders, files and models in memory to GGUF files."""

from __future__ import annotations

import os
from collections import namedtuple

from . import _native

PlannedFile = namedtuple("PlannedFile", "name type nbytes bits_per_weight tensors")
PlannedFile.__doc__ = """A file that would be written.

Attributes:
    name: Its name.
    type: Its file type.
    nbytes: Its size in bytes.
    bits_per_weight: Mean number of bits for each weight.
    tensors: Types of tensors by name.
"""


def _settings(type, **more) -> dict:
    types = [type] if isinstance(type, str) else list(type)
    if more.get("imatrix") is not None:
        more["imatrix"] = os.fspath(more["imatrix"])
    return {"types": types, **more}


def _paths(written) -> list:
    from pathlib import Path

    return [Path(path) for path in written]


def _out(out) -> str:
    # A separator at the end says that a folder is meant; pathlib would take it away.
    return os.fspath(out)


def convert(src, out, *, type, threads=None, imatrix=None, overwrite=False, model_name=None, progress=None):
    """Converts a checkpoint of Hugging Face to GGUF files.

    Ctrl-C and an exception in ``progress`` stop the conversion and leave no output.

    Args:
        src: A checkpoint folder, or a model of the Hub: ``hf://OWNER/MODEL[@REVISION]``, which is read from its cache or over the
            network, without a copy.
        out: The file to write, or a folder if it is one or ends with a separator. A name may contain ``{ftype}``.
        type: A file type (:func:`types`), or a list of types that are written in one pass.
        threads: Number of threads. Default: one per core.
        imatrix: An importance matrix.
        overwrite: Overwrite existing files.
        model_name: Name of the model in the metadata.
        progress: Called with the bytes of input that are done and the total.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The checkpoint cannot be converted, or a file cannot be written.

    Example:
        >>> gt.convert("Llama-3.2-1B", "out/", type=["q4_k_m", "q8_0"])
    """
    settings = _settings(type, threads=threads, imatrix=imatrix, overwrite=overwrite, model_name=model_name)
    return _paths(_native.convert(os.fspath(src), _out(out), settings, progress))


def quantize(
    src, out, *, type, threads=None, imatrix=None, overwrite=False, allow_requantize=False, progress=None
):
    """Converts a GGUF file to files of other types, as ``llama-quantize`` does.

    Args:
        src: The GGUF file, or any shard of a split model.
        out: The file to write, or a folder, as for :func:`convert`.
        type: A file type (:func:`types`), or a list of types that are written in one pass.
        threads: Number of threads. Default: one per core.
        imatrix: An importance matrix.
        overwrite: Overwrite existing files.
        allow_requantize: Allow input that is quantized already.
        progress: Called with the bytes of input that are done and the total.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The file cannot be read, is quantized already, or a file cannot be written.

    Example:
        >>> gt.quantize("model-bf16.gguf", "model-q4_k_m.gguf", type="q4_k_m")
    """
    settings = _settings(
        type, threads=threads, imatrix=imatrix, overwrite=overwrite, allow_requantize=allow_requantize
    )
    return _paths(_native.quantize(os.fspath(src), _out(out), settings, progress))


def plan(src, *, type, imatrix=None) -> list[PlannedFile]:
    """Lists the files that :func:`convert` or :func:`quantize` would write. No weight is read.

    Args:
        src: A checkpoint folder, a model of the Hub or a GGUF file.
        type: A file type or a list of types.
        imatrix: An importance matrix.

    Returns:
        A :class:`PlannedFile` for each type.

    Raises:
        GgufError: The input cannot be converted.

    Example:
        >>> gt.plan("Llama-3.2-1B", type="q4_k_m")[0].nbytes
    """
    src = os.fspath(src)
    rows = _native.plan(src, os.path.isfile(src), _settings(type, imatrix=imatrix))
    return [PlannedFile(*row[:4], dict(row[4])) for row in rows]


def save(
    model,
    out,
    *,
    type,
    config=None,
    tokenizer=None,
    generation_config=None,
    name=None,
    threads=None,
    imatrix=None,
    overwrite=False,
    progress=None,
):
    """Converts a model in memory to GGUF files, without an intermediate checkpoint.

    Arrays must not change until the call returns: they are read in place, unless they are on another device or not contiguous.

    Args:
        model: A model of transformers, or a state dict: torch or NumPy arrays by name, as in the files of ``save_pretrained``.
        out: The file to write, or a folder, as for :func:`convert`.
        type: A file type (:func:`types`), or a list of types that are written in one pass.
        config: Content of ``config.json``: a dict or a config of transformers. Default: that of the model.
        tokenizer: A tokenizer of transformers, a folder with its files, or a dict from file names to bytes.
        generation_config: Content of ``generation_config.json``. Default: that of the model.
        name: Name of the model if its files state none.
        threads: Number of threads. Default: one per core.
        imatrix: An importance matrix.
        overwrite: Overwrite existing files.
        progress: Called with the bytes of input that are done and the total.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The model cannot be converted, or a file cannot be written.

    Example:
        >>> gt.save(model, "tuned-q8_0.gguf", type="q8_0", tokenizer=tokenizer)
    """
    from . import _memory

    loaded = _memory.load(model, config, tokenizer, generation_config, name)
    settings = _settings(type, threads=threads, imatrix=imatrix, overwrite=overwrite)
    return _paths(_native.save(*loaded, _out(out), settings, progress))
