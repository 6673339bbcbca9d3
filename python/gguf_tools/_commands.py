"""Entry points of the command line programs."""

from __future__ import annotations

import signal
import sys

from ._native import run_command


def _run(program: str) -> None:
    # The program handles Ctrl-C itself and removes unfinished files.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run_command(program, sys.argv[0], sys.argv[1:]))


def convert() -> None:
    """gguf-convert."""
    _run("gguf-convert")


def quantize() -> None:
    """gguf-quantize."""
    _run("gguf-quantize")


def inspect() -> None:
    """gguf-inspect."""
    _run("gguf-inspect")


def eval() -> None:
    """gguf-eval."""
    _run("gguf-eval")


def publish() -> None:
    """gguf-publish."""
    _run("gguf-publish")
