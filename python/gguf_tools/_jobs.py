"""Conversions: folders, files and models in memory to GGUF files."""

from __future__ import annotations

import os
from collections import namedtuple

from . import _native

PlannedFile = namedtuple("PlannedFile", "name type nbytes bits_per_weight tensors")
PlannedFile.__doc__ = "A file that would be written: name, type, bytes, bits for each weight, and the type of each tensor by name."


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
    """Converts a Hugging Face checkpoint folder to GGUF files, and gives their paths. ``src`` may also be a model of the Hub,
    ``hf://OWNER/MODEL[@REVISION]``: from its cache, or over the network without a copy.

    ``type`` is a file type (:func:`types`) or several, which are made from one read. ``out`` is a file, or a folder where it is
    one or ends with a separator; a name may hold ``{ftype}``. ``progress`` is called with the bytes of input that are done and
    those that there are, on this thread; what it raises stops the conversion, and so does Ctrl-C. Nothing is left then.
    """
    settings = _settings(type, threads=threads, imatrix=imatrix, overwrite=overwrite, model_name=model_name)
    return _paths(_native.convert(os.fspath(src), _out(out), settings, progress))


def quantize(
    src, out, *, type, threads=None, imatrix=None, overwrite=False, allow_requantize=False, progress=None
):
    """Converts a GGUF file to files of other types, as ``llama-quantize`` does; as :func:`convert` otherwise."""
    settings = _settings(
        type, threads=threads, imatrix=imatrix, overwrite=overwrite, allow_requantize=allow_requantize
    )
    return _paths(_native.quantize(os.fspath(src), _out(out), settings, progress))


def plan(src, *, type, imatrix=None) -> list[PlannedFile]:
    """What :func:`convert` or :func:`quantize` would write of a folder or file. No weight is read."""
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
    """Converts a model that is in memory to GGUF files, and gives their paths; no weight is written in between.

    ``model`` is a model of transformers, or a state dict: names to arrays of torch or NumPy, named as in the files that
    ``save_pretrained`` writes. ``config`` is what ``config.json`` would hold, as a dict or a config of transformers; of a model
    it is taken from there. ``tokenizer`` is a tokenizer of transformers, a folder with the files of one, or a dict from file
    names to bytes. ``name`` stands for the model where nothing else says how it is called.

    Arrays must not be written to meanwhile: they are read where they are, without a copy, unless they are on another device or
    not contiguous. The rest is as in :func:`convert`.
    """
    from . import _memory

    loaded = _memory.load(model, config, tokenizer, generation_config, name)
    settings = _settings(type, threads=threads, imatrix=imatrix, overwrite=overwrite)
    return _paths(_native.save(*loaded, _out(out), settings, progress))
