"""Makes golden/wide/NAME.json: what the reference's two steps make of checkpoints with rows of 256, without the
weights.

Each family of WIDE is made as in families.py, but 256 wide, and its weights are replaced by the numbers of `normal` of
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
from families_houses import as_it_can
from lib import sha256_of_file

SIZES = dict(hidden_size=256, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2)
# Name in families.py or families_moe.py: widths that are said otherwise, or that a family has of its own.
WIDE = {
    "arcee": {}, "baichuan": dict(num_key_value_heads=4), "chatglm": {}, "cohere2": {}, "exaone4": {},
        "gemma2": dict(head_dim=64),
    "gemma3": dict(head_dim=64), "glm4": dict(head_dim=64), "granite": {}, "granitemoe": {}, "internlm2": {},
        "nemotron": {}, "olmo2": {},
    "phi2": dict(num_key_value_heads=4), "phi3": {}, "qwen2": {}, "qwen3": dict(head_dim=64),
        "qwen3moe": dict(head_dim=64, moe_intermediate_size=256),
    "stablelm": {}, "starcoder": dict(n_embd=256), "starcoder2": {},
}
# Mixtures of experts.
LATENT = dict(moe_intermediate_size=256, kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
    num_key_value_heads=4)
WIDE |= {
    "qwen2moe": dict(moe_intermediate_size=256, shared_expert_intermediate_size=256),
        "olmoe": dict(intermediate_size=256, num_key_value_heads=4),
    "deepseek2": dict(LATENT, q_lora_rank=64), "deepseek3": dict(LATENT, q_lora_rank=96),
        "llama4": dict(intermediate_size=256, intermediate_size_mlp=512, head_dim=64),
    "dbrx": dict(d_model=256, ffn_config=dict(ffn_hidden_size=256, moe_num_experts=4, moe_top_k=2)),
    "qwen3next": dict(moe_intermediate_size=256, shared_expert_intermediate_size=256, head_dim=64,
        linear_key_head_dim=32, linear_value_head_dim=64),
    "gpt-oss": dict(head_dim=64, intermediate_size=256), "gpt-oss-mxfp4": dict(head_dim=64, intermediate_size=256),
}
# The specification's own, but those whose logarithms of decays torch raises to powers of its own rounding.
WIDE |= {
    "gpt2": dict(n_embd=256), "gptneox": {}, "falcon": {}, "falcon-40b": dict(num_attention_heads=8),
        "bloom": dict(hidden_size=256),
    "mpt": dict(d_model=256),
}
# Hybrids without state spaces, later text parts with eyes, models that embed.
WIDE |= {
    "granite4-dense": dict(mamba_d_head=128, shared_intermediate_size=512),
    "granite4-moe": dict(mamba_d_head=128, intermediate_size=256, shared_intermediate_size=256),
    "glm4v": {}, "glm4v-moe": dict(moe_intermediate_size=256), "llama-embed": {}, "paddleocr": dict(head_dim=64),
    "laguna": dict(head_dim=64, moe_intermediate_size=256, shared_expert_intermediate_size=256),
    "youtu": dict(kv_lora_rank=256, q_lora_rank=64, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
                  num_key_value_heads=4),
    "gemma3n-old": dict(SIZES, head_dim=64, laurel_rank=64, intermediate_size=[512] * 5),
}
# The largest.
SPARSE = dict(LATENT, q_lora_rank=256, index_head_dim=64)
TEXT = lambda name, **sizes: dict(text_config=dict(arch.FAMILIES[name]["config"]["text_config"], **SIZES, **sizes))
WIDE |= {
    "glm-dsa": SPARSE, "muse-glimmer": TEXT("muse-glimmer", head_dim=64), "mistral4": dict(text_config=dict(
        arch.FAMILIES["mistral4"]["config"]["text_config"], **{**SIZES, **LATENT}, q_lora_rank=256)),
}
# Houses.
MIXTURE = dict(head_dim=64, moe_intermediate_size=256)
WIDE |= {
    "xverse": dict(num_key_value_heads=4), "dream": {}, "apertus": {}, "jais2": {},
    "nanbeige": dict(head_dim=64), "afmoe": MIXTURE, "hy_v3": MIXTURE, "mellum": MIXTURE,
    "granite_swa": {}, "granitemoe_swa": dict(intermediate_size=256, shared_intermediate_size=256),
    "smallthinker": dict(head_dim=64, moe_ffn_hidden_size=256), "maple": MIXTURE, "cohere2moe": dict(head_dim=64,
        intermediate_size=256, prefix_dense_intermediate_size=512),
}
TYPES = ["q8_0", "q4_k_m"]
# What is quantized already is not quantized again.
TYPES_OF = {"gpt-oss-mxfp4": ["mxfp4_moe"]}


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
    spec = dict(arch.FAMILIES[name])
    config = spec.get("config", {})
    if "text_config" in config:
        spec["config"] = {**config, "text_config": {**config["text_config"], **SIZES, **sizes}}
    else:
        spec["config"] = {**config, **({} if spec.get("bare") else SIZES), **sizes}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        arch.make_checkpoint(name, spec, folder)
        for file in folder.iterdir():
            if file.is_file() and file.name not in ("config.json", "model.safetensors"):
                shutil.copy(ctx.checkpoint(name) / file.name, file)
        shapes = fill(folder / "model.safetensors")
        pre = "llama-bpe" if spec.get("tokenizer") == "bpe" else "default"
        copy = arch.for_reference(folder, spec, Path(scratch) / "for-reference")
        with arch.as_it_stands(spec), as_it_can(spec, copy):
            base = arch.convert(copy, Path(scratch) / "bf16.gguf", "bf16", pre, spec.get("given", {}))
        files = {}
        for kind in TYPES_OF.get(name, TYPES):
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
