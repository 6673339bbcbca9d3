"""Receiver of the messages of the native half."""

from __future__ import annotations


def receive(kind: str, parts: list) -> None:
    """Issues a warning at the line that called the package, or logs a message to the logger ``gguf_tools``."""
    from ._errors import GgufWarning, in_keywords

    text = in_keywords(parts)
    if kind == "warning":
        import warnings

        warnings.warn(text, GgufWarning, stacklevel=_outside())
        return
    import logging

    logging.getLogger("gguf_tools").log(logging.DEBUG if kind == "debug" else logging.INFO, "%s", text)


def _outside() -> int:
    """Stack level of the innermost frame outside the package, as seen from :func:`receive`."""
    import sys

    package = __name__.rpartition(".")[0]
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith(f"{package}."):
        level, frame = level + 1, frame.f_back
    return level
