"""What the makers of goldens share: what they are given, where the reference is, and how digests and JSON are
written."""

import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path

from digests import seed_of, sha256, sha256_of_file  # noqa: F401: makers take them from here

GOLDEN = Path(__file__).resolve().parents[2] / "golden"

# What tiny tokenizers are trained on.
TEXT = """
The quick brown fox jumps over the lazy dog while seven wizards mix a big quiz of jade vowels.
A converter reads a checkpoint, names each tensor, and writes the same numbers in another order.
It was the best of files, it was the worst of files, it was the age of floats and of integers.
How many rows would a row mapper map if a row mapper could map rows? As many as it was given.
Pack my box with five dozen liquor jugs; then unpack them, weigh them, and pack them again.
Numbers such as 0, 1, 2, 3, 10, 42, 128, 1024 and 3.14159 appear in text, and so do (brackets).
""".strip().splitlines()


class Context:
    """What a maker is given.

    golden     the golden folder that it writes
    only       names of single goldens to make; empty for all of the maker's
    reference  root of the llama.cpp tree; its converter and gguf-py can be imported
    build      folder of the reference's programs and libraries
    inputs     further inputs by name: `--input NAME=PATH`
    """

    def __init__(self, golden: Path = GOLDEN, only=(), reference=None, build=None, inputs=None):
        self.golden, self.only, self.inputs = Path(golden), list(only), dict(inputs or {})
        self.reference = reference and Path(reference).resolve()
        self.build = build and Path(build).resolve()
        self._scratch = tempfile.TemporaryDirectory()
        self.scratch = Path(self._scratch.name)
        if self.reference:
            sys.path[:0] = [str(self.reference), str(self.reference / "gguf-py")]
            logging.basicConfig(level=logging.ERROR)

    def wants(self, name: str) -> bool:
        return not self.only or name in self.only

    def checkpoint(self, name: str) -> Path:
        """The checkpoint of golden/arch/NAME, whole, in a folder of that name."""
        # It needs numpy, which not every maker does.
        import checkpoint
        return checkpoint.whole(name, self.golden, self.scratch / "arch")

    def tokenizer(self, name: str) -> Path:
        """The files of golden/tokenizer/NAME, those too that copies.json takes from another, in a folder of that
        name."""
        root, folder = self.golden / "tokenizer", self.scratch / "tokenizer" / name
        if not folder.exists():
            shutil.copytree(root / name, folder)
            for copy, original in json.loads((root / "copies.json").read_text()).items():
                if copy.startswith(name + "/"):
                    shutil.copy(root / original, self.scratch / "tokenizer" / copy)
        return folder

    def checkpoint_names(self) -> list[str]:
        return sorted(path.parent.name for path in self.golden.glob("arch/*/config.json"))

    def program(self, name: str) -> Path:
        """A program of the reference."""
        found = [self.build / folder / name for folder in (".", "bin") if (self.build / folder / name).exists()]
        if not found:
            raise SystemExit(f"{self.build} has no {name}")
        return found[0]

    @property
    def libraries(self) -> Path:
        """The folder of the reference's shared libraries."""
        [folder, *_] = [self.build / folder for folder in (".", "bin", "lib")
            if (self.build / folder / "libggml-base.so").exists()]
        return folder

    def input(self, name: str) -> Path:
        if name not in self.inputs:
            raise SystemExit(f"--input {name}=PATH is needed")
        return Path(self.inputs[name]).resolve()


def write_json(path: Path, value, **how) -> None:
    path.write_text(json.dumps(value, **{"indent": 2, **how}) + "\n")
