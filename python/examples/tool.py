"""Converts a checkpoint, checks and measures the files, and lets the small one continue a text.

usage: python tool.py CHECKPOINT FOLDER TEXT
"""

import sys
from pathlib import Path

import gguf_tools as gt


def show(done, total):
    """Receives progress. An exception in it cancels the call, like Ctrl-C."""
    print(f"\r{100 * done // max(total, 1)} %", end="" if done < total else "\n", file=sys.stderr)


def run(checkpoint, folder, text, progress=show):
    """Returns the small file, its mean KL divergence from the file in bf16 in nats, and its text."""
    out = Path(folder) / "model-{ftype}.gguf"
    base, small = gt.convert(checkpoint, out, file_type=["bf16", "q4_k_m"], progress=progress)
    for file in (base, small):
        report = gt.verify(file, against=checkpoint, progress=progress)
        if not report.good:
            problems = [finding.message for check in report.checks for finding in check.findings]
            raise SystemExit("\n".join(problems))
    found = gt.compare(base, small, Path(text), chunks=20, progress=progress)
    made = gt.Model(small).generate("Once upon a time", max_tokens=16)
    return small, found.kl.value, made


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__.splitlines()[-1])
    try:
        file, divergence, made = run(*sys.argv[1:])
    except gt.GgufError as error:
        # The message and its hint.
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"{file}: KL divergence {divergence:.4f} nats\n{made}")
