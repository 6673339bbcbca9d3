"""Golden recipes of gpt-oss, by OpenAI."""

from headers import RMS, Header, heads
from recipes import attention, ends, ffn
from tiny_models import NARROW, OLD, few

# Rows of blocks need a multiple of 32.
GPT_OSS = dict(NARROW, hidden_size=32, intermediate_size=64, num_local_experts=3, num_experts_per_tok=2, head_dim=8,
    sliding_window=64)
MXFP4 = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router",
    "model.embed_tokens", "lm_head"])


def with_blocks(tensors: dict, config) -> dict:
    """Experts in MXFP4: random codes, scales around one."""
    import torch
    done = {}
    for name, tensor in tensors.items():
        if name.endswith(("experts.down_proj", "experts.gate_up_proj")):
            experts, columns, rows = tensor.shape
            done[name + "_blocks"] = torch.randint(0, 256, [experts, rows, columns // 32, 16], dtype=torch.uint8)
            done[name + "_scales"] = torch.randint(120, 130, [experts, rows, columns // 32], dtype=torch.uint8)
        else:
            done[name] = tensor
    return done


CHECKPOINTS = {
    "gpt-oss": dict(model="gpt_oss", tokenizer="bpe", config=dict(few("num_local_experts"), intermediate_size=12,
        head_dim=4, sliding_window=64)),
    "gpt-oss-mxfp4": dict(model="gpt_oss", tokenizer="bpe", extra=with_blocks, config=GPT_OSS,
        more=dict(quantization_config=MXFP4)),
    "gpt-oss-mxfp4-old": dict(model="gpt_oss", tokenizer="bpe", extra=with_blocks, config=GPT_OSS, old=dict(OLD,
        rope_theta=150000, initial_context_length=4096, experts_per_token=4, swiglu_limit=7.0,
        quantization_config=MXFP4, rope_scaling=dict(rope_type="yarn", factor=32.0,
        original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0, truncate=False))),
}

WIDE = {"gpt-oss": dict(head_dim=64, intermediate_size=256), "gpt-oss-mxfp4": dict(head_dim=64, intermediate_size=256)}
# llama.cpp rounds the range over which YaRN blends frequencies.
LOGITS = dict.fromkeys(["gpt-oss", "gpt-oss-mxfp4", "gpt-oss-mxfp4-old"], dict(
    config=dict(rope_parameters=dict(truncate=True))))


def gpt_oss_header():
    """gpt-oss 20B: windows of 128 in every other layer, experts with biases."""
    h = Header("gpt-oss", 2880, 4, 201088, 2880, **RMS, **heads(64, 8, 64),
               **{"attention.sliding_window": 128, "expert_count": 32, "expert_used_count": 4,
                  "expert_feed_forward_length": 2880, "rope.dimension_count": 64, "rope.freq_base": 150000.0})
    for i in range(4):
        h.norms(i, "attn_norm", "post_attention_norm")
        h.attention(i, 64, 8, 64, biases=True)
        h.add(f"blk.{i}.attn_sinks.weight", 64)
        h.experts(i, 32, 2880, biases=True)
    return h.ends()


MEMORY = {"gpt-oss": gpt_oss_header}


def tensors_of_120b():
    layers, d = list(range(36)), 2880
    biases = [(layers, f"ffn_{part}_exps.bias", (d, 128)) for part in ("gate", "up", "down")]
    return ends(d, 201088) + attention(d, 4096, 512, layers) + ffn(d, 2880, layers, "_exps", (128,)) + biases \
        + [(layers, "ffn_gate_inp.weight", (d, 128)), (layers, "attn_sinks.weight", (64,))]


SNAPSHOTS = {
    "gpt-oss-120b": ("gpt-oss", dict(n_embd=2880, n_ff=2880, n_vocab=0, n_layer=36, n_head=64, n_head_kv=8,
        n_expert=128), tensors_of_120b()),
}
