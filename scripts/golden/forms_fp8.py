"""Checkpoints in FP8 for forms.py: every spelling that the reference reads.

`--fp8-as-q8` of the reference is asked for where `fp8_as_q8` says so; `whole` has its digests too.
"""

import json
import re
from pathlib import Path

import checkpoint
from lib import GOLDEN

WIDTH, INNER, KEYS, VOCAB = 160, 200, 80, 384
LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2,
             torch_dtype="bfloat16", rms_norm_eps=1e-5, tie_word_embeddings=False, hidden_act="silu",
             intermediate_size=INNER, rope_theta=500000.0)
MODULES = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (KEYS, WIDTH), "self_attn.v_proj": (KEYS, WIDTH),
           "self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH),
           "mlp.down_proj": (WIDTH, INNER)}
PLAIN = {"model.embed_tokens.weight": f"normal {VOCAB}x{WIDTH}", "lm_head.weight": f"normal {VOCAB}x{WIDTH}",
         "model.norm.weight": f"near-one {WIDTH}"} | {
             f"model.layers.{layer}.{norm}_layernorm.weight": f"near-one {WIDTH}" for layer in (0, 1) for norm in (
                 "input", "post_attention")} | {
                     f"model.layers.{layer}.{name}.weight": f"normal {rows}x{columns}" for layer in (0, 1)
                     for name, (rows, columns) in MODULES.items()}
# What of a family is quantized; gates, norms, embeddings and outputs never are.
MATRIX = re.compile(r"\.((\w+_proj(_with_mqa)?|w[123])\.weight|(gate_up|down)_proj)$")
# Not even where their names look like it.
LEFT = re.compile(r"eh_proj|layers\.1\.self_attn\.o_proj")


def ceil(n: int, size: int) -> int:
    return -(-n // size)


def quantized(tensors: dict, parts) -> dict:
    """`tensors` with those matrices in FP8 that belong there; `parts` gives what stands beside codes of a shape."""
    out = {}
    for name, text in tensors.items():
        values, shape, *_ = text.split(" ")
        if not MATRIX.search(name) or LEFT.search(name):
            out[name] = text
            continue
        # A copy of another tensor would have other scales.
        codes, *others = parts(name, [int(n) for n in shape.split("x")])
        out[name] = codes.format(shape)
        out |= dict(others)
    return out


def blocks(size: int, scale: str = "positive {} F32", codes: str = "f8 {} F8_E4M3", ending: str = "_scale_inv",
           padded: str = "never"):
    """Blocks of this size; matrices whose name holds `padded` have a grid that is longer than they need."""
    def parts(name, shape):
        more = padded in name
        grid = [*shape[:-2], ceil(shape[-2], size) + more, ceil(shape[-1], size) + more]
        return codes, (name + ending, scale.format("x".join(map(str, grid))))
    return parts


def scalar(ending: str, scale: str = "positive - F32", more=()):
    def parts(name, shape):
        stem = name.removesuffix("weight")
        return "f8 {} F8_E4M3", (stem + ending, scale), *((stem + other, "positive - F32") for other in more)
    return parts


def channel(dims: str, dtype: str = "BF16"):
    return lambda name, shape: ("f8 {} F8_E4M3", (name + "_scale", f"positive {dims.format(shape[-2])} {dtype}"))


def family(name: str, parts, quantization: dict, tokenizer: str) -> dict:
    """A checkpoint of golden/arch in FP8, with its config as it was released."""
    folder: Path = GOLDEN / "arch" / name
    if (folder / "checkpoint.json").exists():
        [file] = json.loads((folder / "checkpoint.json").read_text())["files"].values()
        tensors = file["tensors"]
    else:
        tensors = checkpoint.described(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    return dict(tokenizer=tokenizer, config=config | dict(quantization_config=quantization), tensors=quantized(tensors, parts))


def llama(parts, **quantization) -> dict:
    return dict(tokenizer="spm-384", config=LLAMA | dict(quantization_config=quantization), tensors=quantized(PLAIN, parts))


def fine_grained(size: int, **more) -> dict:
    return dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[size, size], **more)


def compressed(form: str, **weights) -> dict:
    weights = dict(num_bits=8, type="float", symmetric=True, dynamic=False, group_size=None, block_structure=None,
                   actorder=None) | weights
    group = dict(targets=["Linear"], weights=weights, input_activations=dict(num_bits=8, type="float", strategy="token",
                 dynamic=True))
    return dict(quant_method="compressed-tensors", format=form, quantization_status="compressed", ignore=["lm_head"],
                config_groups=dict(group_0=group), kv_cache_scheme=None)


FORMS = {
    "fp8-block": dict(llama(blocks(128), **fine_grained(128)), fp8_as_q8=True),
    "fp8-block-bf16": llama(blocks(64, "positive {}", padded="down_proj"), **fine_grained(64)),
    "fp8-block-e8m0": llama(blocks(32, "exponents {} F8_E8M0"), **fine_grained(32, scale_fmt="ue8m0")),
    "fp8-block-e5m2": llama(blocks(48, codes="e5m2 {} F8_E5M2"), **fine_grained(48)),
    "fp8-tensor": llama(scalar("weight_scale_inv", "positive - BF16", ("activation_scale",)), quant_method="fp8",
                        activation_scheme="static", weight_block_size=None),
    "fp8-mistral-names": llama(scalar("qscale_weight", more=("qscale_act",)), quant_method="fp8"),
    "fp8-deepseek3": family("deepseek3-old", blocks(8), fine_grained(8), "bpe-288"),
    "fp8-minimax-m2": family("minimax-m2-old", blocks(12), fine_grained(12, modules_to_not_convert=[
        "gate", "e_score_correction_bias", "lm_head"]), "bpe-288"),
    "fp8-stacked": family("qwen3moe-stacked", blocks(8), fine_grained(8), "bpe-288"),
    "fp8-modelopt": llama(scalar("weight_scale", more=("input_scale", "k_scale", "v_scale")), quant_method="modelopt",
                          quant_algo="FP8", producer=dict(name="modelopt", version="0.35.0"), ignore=["lm_head"]),
    "fp8-modelopt-channel": llama(channel("{}", "F32"), quant_method="modelopt", quant_algo="FP8_PER_CHANNEL_PER_TOKEN"),
    "fp8-compressed-channel": dict(llama(channel("{}x1"), **compressed("float-quantized", strategy="channel")),
                                   fp8_as_q8=True),
    "fp8-compressed-block": llama(blocks(128, "positive {}", ending="_scale"), **compressed(
        "float-quantized", strategy="block", block_structure=[128, 128])),
    "fp8-compressed-naive": llama(channel("{}x1", "F32"), **compressed("naive-quantized", strategy="channel")),
}
