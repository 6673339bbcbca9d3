"""Calls of the native half. Options and reports cross as JSON."""

from __future__ import annotations

import os

from . import _native
from ._progress import shown
from ._results import Report


def call(name: str, options: dict, progress=False):
    """Runs the call ``name`` and returns its report. Options that are None are left out.

    ``progress`` is a callable, None for a progress bar, or False.
    """
    import json

    with shown(progress) as report:
        return json.loads(_native.call(name, json.dumps(stated(options)), report), object_hook=Report)


def stated(options: dict) -> dict:
    """The options that are not None."""
    return {key: value for key, value in options.items() if value is not None}


def is_default(value) -> bool:
    """True for values that stand for a default: None, False and empty collections."""
    return value is None or value is False or (isinstance(value, (tuple, list, dict)) and not value)


def as_path(text):
    """A str as a ``Path``, whose module is slow to import."""
    from pathlib import Path

    return Path(text)


def text_path(path):
    """A path as a str; None stays None."""
    return None if path is None else os.fsdecode(path)


def text_paths(paths) -> list:
    """One path or several as a list of str."""
    return [os.fsdecode(path) for path in ([paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths)]


def texts(values) -> list:
    """One str or several as a list."""
    return [values] if isinstance(values, str) else list(values)


def sizes(values) -> list:
    """One size or several as a list of numbers of bytes."""
    return [size(each) for each in ([values] if isinstance(values, (int, str)) else values)]


def size(value):
    """A number of bytes, or a text such as ``2GB`` or ``500M`` (powers of 1000) or ``16GiB``, as a number of bytes."""
    if value is None or isinstance(value, int):
        return value
    text = str(value).strip()
    digits = text.rstrip("BKMGTibkmgt ")
    unit = text[len(digits) :].strip().upper()
    powers = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}
    base, unit = (1024, unit[:-2]) if unit.endswith("IB") else (1000, unit[:-1] if unit[-1:] == "B" else unit)
    try:
        return int(float(digits) * base ** powers[unit])
    except (KeyError, ValueError):
        raise ValueError(f"size: expected a number of bytes such as 2GB, found {value!r}") from None


def hub(revision=None, token=None, cache_dir=None, endpoint=None) -> dict:
    """Access to the Hugging Face Hub: the arguments, else the environment variables of huggingface_hub."""
    import json

    options = json.loads(_native.hub_from_environment())
    if token is not None and token is not True:
        options.update(token=token or None, token_file=None)
    return {**options, **stated({"revision": revision, "cache_dir": text_path(cache_dir), "endpoint": endpoint})}
