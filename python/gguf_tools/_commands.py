"""Entry points of the command line programs."""

import signal
import sys
from functools import partial

from ._native import run_command


def _run(program: str) -> None:
    # The program handles Ctrl-C itself and removes unfinished files.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run_command(program, sys.argv[0], sys.argv[1:]))


convert = partial(_run, "gguf-convert")
quantize = partial(_run, "gguf-quantize")
inspect = partial(_run, "gguf-inspect")
eval = partial(_run, "gguf-eval")
publish = partial(_run, "gguf-publish")
