"""Calls as a type checker sees them: scripts/check-python runs mypy on this file. It is not executed."""

from collections.abc import Generator
from pathlib import Path
from typing import Optional

import gguf_tools as gt
from typing_extensions import assert_type

assert_type(gt.convert("in", Path("out"), file_type=["q4_k_m"], lora={"adapter": 0.5}), "list[Path]")
assert_type(gt.quantize("in", "out", file_type="q8_0", tensor_types={"ffn": "q6_k"}), "list[Path]")
assert_type(gt.compare("base", "file", "text", top_tokens=3), gt.Comparison)
assert_type(gt.compare("base", ["file"], Path("text")), "list[gt.Comparison]")
assert_type(gt.perplexity("file", "text").error, Optional[float])
assert_type(gt.tensor_types()["q4_k"].bits, float)
model = gt.Model("file")
assert_type(model.generate("text", max_tokens=3), str)
assert_type(model.generate("text", stream=True), "Generator[str, None, None]")

gt.convert("in", "out", unknown=1)  # type: ignore[call-arg]
gt.convert("in", "out", pure="yes")  # type: ignore[arg-type]
gt.quantize("in", "out", to="gguf")  # type: ignore[call-arg]
gt.verify("file", only=1)  # type: ignore[arg-type]
