"""Golden recipes of LFM2, by Liquid AI: text, and images in LFM2-VL."""

from headers import RMS, Header
from tiny_models import OLD, POOLING, TEXT, sizes
from tiny_towers import SIGLIP, tower

CHECKPOINTS = {
    "lfm2": dict(model="lfm2", tokenizer="bpe", config=dict(layer_types=["conv", "full_attention"],
        block_multiple_of=8)),
    "lfm2-old": dict(model="lfm2", tokenizer="bpe", drop=("layer_types", "intermediate_size"),
        config=dict(full_attn_idxs=[1], block_auto_adjust_ff_dim=False), old=dict(OLD, rope_theta=1000000.0,
        block_ff_dim=64, full_attn_idxs=[1], tie_embedding=True)),
    "lfm2moe": dict(model="lfm2_moe", tokenizer="bpe", config=dict(TEXT, num_hidden_layers=4, num_dense_layers=1,
        num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
        layer_types=["conv", "full_attention", "conv", "full_attention"])),
    "lfm2-colbert": dict(model="lfm2", **{"class": "Lfm2Model"}, tokenizer="bpe", dense={"1_Dense": [12, 32]},
        config=dict(layer_types=["conv", "full_attention"], block_multiple_of=8)),
    "lfm2-bidirectional": dict(model="lfm2", **{"class": "Lfm2Model"}, tokenizer="bpe", files=POOLING,
        config=dict(layer_types=["conv", "full_attention"], block_multiple_of=8),
        more=dict(architectures=["Lfm2BidirectionalModel"])),
}

CHECKPOINTS |= {
    "lfm2moe-old": CHECKPOINTS["lfm2moe"] | dict(old=dict(OLD, rope_theta=1000000.0)),
}



def audio_tokenizer(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    both = {"operator_norm": [h], "ffn_norm": [h], "feed_forward.w1": [f, h], "feed_forward.w2": [h, f], "feed_forward.w3": [f, h]}
    conv = {"conv.conv": [h, 1, 3], "conv.in_proj": [3 * h, h], "conv.out_proj": [h, h]}
    attention = {"self_attn.q_proj": [q, h], "self_attn.k_proj": [k, h], "self_attn.v_proj": [k, h], "self_attn.out_proj": [h, q],
                 "self_attn.q_layernorm": [8], "self_attn.k_layernorm": [8]}
    parts = [both | (conv if i == 0 else attention) for i in range(2)]
    return {"emb.emb.weight": [24, h], "istft.window": [16], "lin.weight": [20, h], "lin.bias": [20],
            "lfm.embed_tokens.weight": [v, h], "lfm.embedding_norm.weight": [h], **{
                f"lfm.layers.{i}.{name}.weight": shape for i in range(2) for name, shape in parts[i].items()}}


CHECKPOINTS |= {
    "lfm2-audio-tokenizer": dict(hand=audio_tokenizer, config=dict(TEXT, architectures=["Lfm25AudioTokenizer"],
        model_type="lfm2", torch_dtype="bfloat16", layer_types=["conv", "full_attention"], conv_L_cache=3, norm_eps=1e-5,
        block_multiple_of=8, block_auto_adjust_ff_dim=False, block_ffn_dim_multiplier=1.0, rope_theta=1000000.0,
        sliding_window=30, output_size=20, tie_embedding=True)),
}

PROJECTORS = {
    "lfm2vl": tower("lfm2_vl", "Lfm2VlForConditionalGeneration", dict(model_type="lfm2",
        layer_types=["full_attention"]), dict(hub=[("vision_tower.vision_model.", "vision_tower."),
        ("vision_tower.", "vision_tower.vision_model.")]), vision_config=dict(SIGLIP, patch_size=16, num_patches=16,
        vision_use_head=False), projector_hidden_size=24),
}

LOGITS = {"lfm2-bidirectional": dict(by="reference")}


def lfm2_header():
    """LFM2 1.2B: short convolutions and grouped attention."""
    kv = [0, 0, 8, 0]
    h = Header("lfm2", 2048, 4, 65536, 8192, **RMS, **{
        "attention.head_count": 32, "attention.head_count_kv": kv, "shortconv.l_cache": 3, "rope.freq_base": 1e6})
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm")
        if kv[i]:
            h.attention(i, 32, 8, 64, norms=True)
        else:
            h.add(f"blk.{i}.shortconv.conv.weight", 3, 2048)
            h.add(f"blk.{i}.shortconv.in_proj.weight", 2048, 3 * 2048)
            h.add(f"blk.{i}.shortconv.out_proj.weight", 2048, 2048)
        h.mlp(i)
    return h.ends(output=False, norm="token_embd_norm")


MEMORY = {"lfm2": lfm2_header}
