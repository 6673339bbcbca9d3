"""Shared fixtures: a checkpoint of two layers, and a file that is converted once."""

import os
from pathlib import Path

import gguf_tools as gt
import pytest

CHECKPOINT = Path(
    os.environ.get("GGUF_TOOLS_CHECKPOINT")
    or Path(__file__).resolve().parents[2] / "golden" / "arch" / "llama"
)


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    return CHECKPOINT


@pytest.fixture(scope="session")
def bf16(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("files") / "bf16.gguf"
    assert gt.convert(CHECKPOINT, out, file_type="bf16") == [out]
    return out
