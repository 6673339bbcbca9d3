"""Makes golden/wide/NAME.json: what the reference's two steps make of checkpoints with rows of 256, without the
weights.

Each checkpoint of WIDE (families.py) is made by its recipe, but 256 wide, and its weights are replaced by the numbers of `normal` of
quant.py (seed: place of the tensor among the sorted names), rounded to bf16, which the test makes again. A file holds:

  config    config.json
  tensors   {name: shape as in the checkpoint}; names that end in _blocks and _scales are bytes, byte i of the tensor
  at place p being
            167 i + 13 p and 118 + (7 i + p) mod 12
  pre       what get_vocab_base_pre was replaced with
  files     {type: [bytes, sha256 of the whole file]} of the converter at bf16, then llama-quantize
"""

import json
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import arch
from data import normal
from families import CHECKPOINTS, WIDE
from lib import sha256_of_file
from tiny_models import WIDE_TEXT

TYPES = ["q8_0", "q4_k_m"]


def fill(path: Path) -> dict:
    """Replaces the weights of a checkpoint in one file; their shapes by name."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    names = sorted(name for name in header if name != "__metadata__")
    shapes, body = {}, b""
    for seed, name in enumerate(names):
        dtype = header[name]["dtype"]
        shapes[name] = header[name]["shape"]
        count = int(np.prod(shapes[name]))
        if dtype == "U8":
            at = np.arange(count, dtype=np.uint64)
            raw = 118 + (7 * at + seed) % 12 if name.endswith("_scales") else (167 * at + 13 * seed) % 256
            header[name] = dict(dtype=dtype, shape=shapes[name], data_offsets=[len(body), len(body) + count])
            body += raw.astype(np.uint8).tobytes()
            continue
        assert dtype == "BF16", name
        bits = normal(seed, np.arange(count, dtype=np.uint64)).view(np.uint32)
        rounded = ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype("<u2")
        header[name] = dict(dtype="BF16", shape=shapes[name], data_offsets=[len(body), len(body) + 2 * count])
        body += rounded.tobytes()
    text = json.dumps({name: header[name] for name in names}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return shapes


def make_one(name: str, sizes: dict, ctx) -> None:
    spec = dict(CHECKPOINTS[name])
    config = spec.get("config", {})
    if "text_config" in config:
        spec["config"] = {**config, "text_config": {**config["text_config"], **WIDE_TEXT, **sizes}}
    else:
        spec["config"] = {**config, **({} if spec.get("bare") else WIDE_TEXT), **sizes}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        arch.make_checkpoint(name, spec, folder)
        for file in folder.iterdir():
            if file.is_file() and file.name not in ("config.json", "model.safetensors"):
                shutil.copy(ctx.checkpoint(name) / file.name, file)
        shapes = fill(folder / "model.safetensors")
        pre = "llama-bpe" if spec.get("tokenizer") == "bpe" else "default"
        copy = arch.for_reference(folder, spec, Path(scratch) / "for-reference")
        base = arch.convert(copy, Path(scratch) / "bf16.gguf", "bf16", pre, spec)
        files = {}
        # What is quantized already is not quantized again.
        for kind in ["mxfp4_moe"] if "quantization_config" in spec.get("more", {}) else TYPES:
            path = Path(scratch) / f"{kind}.gguf"
            subprocess.run([ctx.program("llama-quantize"), base, path, kind, "1"], check=True, capture_output=True)
            files[kind] = [path.stat().st_size, sha256_of_file(path)]
        config = json.loads((folder / "config.json").read_text())
    lines = ",\n".join("    %s: %s" % (json.dumps(tensor), json.dumps(shape)) for tensor, shape in shapes.items())
    text = '{\n  "config": %s,\n  "pre": %s,\n  "files": %s,\n  "tensors": {\n%s\n  }\n}\n' % (
        json.dumps(config), json.dumps(pre), json.dumps(files), lines)
    (ctx.golden / "wide" / f"{name}.json").write_text(text)
    print(name)


def make(ctx) -> None:
    for name, sizes in WIDE.items():
        if ctx.wants(name):
            make_one(name, sizes, ctx)
