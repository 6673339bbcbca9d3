"""Makes golden/source/, the goldens of crates/checkpoint.

golden/source/ has to_f32.txt, the hash of every bit pattern of each small type as torch
converts it; and two tiny checkpoints with the listing that gguf-py's reader gives: name, dtype,
shape, file, first byte, bytes, hash of the values as f32.
"""

import json

import torch
from safetensors.torch import save_file

from lib import sha256

SMALL = {
    "F16": torch.float16, "BF16": torch.bfloat16, "I16": torch.int16, "U16": torch.uint16,
    "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
}
WIDE = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "I32": torch.int32,
        "U64": torch.uint64, "U32": torch.uint32}
TYPES = SMALL | WIDE


def f32_hash(tensor):
    return sha256(tensor.to(torch.float32).contiguous().numpy().tobytes())


def patterns(dtype):
    bits = torch.empty(0, dtype=dtype).element_size() * 8
    if dtype == torch.bool:
        # Any byte but zero is true.
        return torch.arange(256) != 0
    all_bits = torch.arange(2**bits, dtype=torch.int32)
    return all_bits.to(torch.int16 if bits == 16 else torch.uint8).view(dtype)


def listing(parts):
    from gguf.utility import SafetensorsLocal

    lines = []
    for part in parts:
        for name, tensor in SafetensorsLocal(part).tensors.items():
            values = torch.from_numpy(tensor.mmap_bytes()).view(TYPES[tensor.dtype])
            lines.append(" ".join([name, tensor.dtype, json.dumps(list(tensor.shape), separators=(",", ":")),
                part.name,
                                   str(tensor.data_range.offset), str(tensor.data_range.size), f32_hash(values)]))
    return "".join(line + "\n" for line in lines)


def make(ctx):
    out = ctx.golden / "source"
    (out / "to_f32.txt").write_text("".join(f"{n} {f32_hash(patterns(d))}\n" for n, d in SMALL.items()))

    torch.manual_seed(7)
    mixed = out / "mixed"
    mixed.mkdir(exist_ok=True)
    tensors = {"scalar": torch.tensor(1.5), "empty": torch.empty(0, 3), "cube": torch.randn(2, 3, 4),
               # Not in the order of code points as written, and one name beyond ASCII.
               "Z": torch.randn(3), "a.10": torch.randn(3), "a.2": torch.randn(3), "\u00e9": torch.randn(2)}
    for name, dtype in TYPES.items():
        if name == "BOOL":
            tensors["t.BOOL"] = torch.tensor([[True, False, True], [False, False, True]])
        else:
            size = torch.empty(0, dtype=dtype).element_size()
            values = torch.randint(0, 256, (2, 3 * size), dtype=torch.uint8)
            if name in ("F64", "F32", "F16"):
                # No NaN: what torch makes of those of F16 depends on their place in the tensor.
                tensors[f"t.{name}"] = torch.randn(2, 3).to(dtype)
            else:
                tensors[f"t.{name}"] = values.view(dtype)
    save_file(tensors, mixed / "model.safetensors", metadata={"format": "pt"})
    (mixed / "config.json").write_text('{"model_type": "none"}\n')
    (mixed / "listing.txt").write_text(listing([mixed / "model.safetensors"]))

    sharded = out / "sharded"
    sharded.mkdir(exist_ok=True)
    (sharded / "config.json").write_text('{"model_type": "none", "time_step_limit": [0.0, Infinity]}\n')
    (sharded / "generation_config.json").write_text('{"eos_token_id": 2}\n')
    (sharded / "README.md").write_text("---\nlicense: mit\nlanguage: [en]\n---\n# A card\n")
    (sharded / "chat_template.jinja").write_text("{{ messages }}")
    (sharded / "additional_chat_templates").mkdir(exist_ok=True)
    (sharded / "additional_chat_templates" / "rag.jinja").write_text("{{ documents }}")
    weight_map = {}
    # The second file of the index comes first in it: files count in the order of their names.
    for number in (2, 1):
        file = f"model-{number:05}-of-00002.safetensors"
        part = {f"layers.{i}.weight": torch.randn(4, 6, dtype=torch.bfloat16)
            for i in range(3 * number, 3 * number + 3)}
        save_file(part, sharded / file)
        weight_map |= dict.fromkeys(part, file)
    (sharded / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 288}, "weight_map": weight_map}, indent=2) + "\n")
    (sharded / "listing.txt").write_text(listing(sorted(sharded.glob("*.safetensors"))))

