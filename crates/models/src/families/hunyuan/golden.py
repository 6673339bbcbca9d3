"""Golden recipes of Hunyuan, by Tencent: text, and images in Hunyuan OCR and VL."""

from logits_own import first_of_equal
from tiny_models import FEW, FLAT, HAND, INDEXER, LATENT, OLD, TEXT, WIDE_EXPERTS, after_last, gpt2_vocab, wrapper
from tiny_parts import ENDS, NORMS, indexer, latent, mlp, tensors, weights
from tiny_towers import PIXELS, tower

HY4 = dict(HAND, **LATENT, **INDEXER, n_shared_experts=1, routed_scaling_factor=2.8, norm_topk_prob=True, n_group=1,
    topk_group=1, head_dim=8, first_k_dense_replace=1, mlp_layer_types=["dense", "sparse", "sparse"], hc_mult=2,
    hc_magnitude=2.0, hc_eps=1e-6, learnable_sink_init=0.0, swiglu_limit=10.0,
    indexer_types=["full", "full", "shared"], rope_theta=10000000.0, num_nextn_predict_layers=1)


def hy_v4(config: dict) -> dict:
    streams = {f"hc_{part}_layer.hc_pre.hc_{name}": f"normal {shape} F32" for part in ("attn", "mlp")
        for name, shape in (("fn", "6x64"), ("base", "6"), ("scale", "3"))}
    stacked = {"mlp.gate.weight": [3, 32], "mlp.gate.e_score_correction_bias": [3], **mlp("mlp.shared_experts", 24),
               "mlp.experts.gate_up_proj": [3, 48, 32], "mlp.experts.down_proj": [3, 32, 24]}
    each = lambda bid: NORMS | latent() | streams | (mlp() if bid == 0 else stacked) | (indexer() if bid < 2 else {}
        ) | weights(self_attn__linear_gate=[40, 32]) | {"self_attn.learnable_sink_param": [4]}
    return tensors(3, ENDS, each) | {f"model.hc_head.hc_head_{name}": f"normal {shape} F32"
        for name, shape in (("fn", "2x64"), ("base", "2"), ("scale", "1"))} | {
        "model.mtp_layers.0.input_layernorm.weight": [32]}


HUNYUAN = dict(TEXT, head_dim=8, eod_token_id=3, max_position_embeddings=32768)
ALPHA = dict(alpha=1000.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0, mscale_all_dim=1.0)
HUNYUAN_TOWER = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, patch_size=4,
    max_image_size=16, min_image_size=4, max_vit_seq_len=16, out_hidden_size=32, img_max_token_num=16)

# The class requires the code of the Hub's tokenizer.
BYTE_LEVEL = gpt2_vocab("hunyuan", "HunYuanMoEModel")

CHECKPOINTS = {
    "hy-v4": dict(hand=hy_v4, tokenizer="bpe", config=dict(HY4, architectures=["HYV4ForCausalLM"], model_type="hy_v4")),
    "hunyuan-dense": dict(model="hunyuan_v1_dense", tokenizer="bpe", config=dict(HUNYUAN, tie_word_embeddings=True)),
    "hunyuan-dense-old": dict(model="hunyuan_v1_dense", tokenizer="bpe", config=HUNYUAN, old=dict(OLD,
        rope_theta=10000.0, rope_scaling=dict(ALPHA, type="dynamic"), use_qk_norm=True, use_cla=False,
        cla_share_factor=2, attention_head_dim=8, org_vocab_size=384, norm_type="rms", use_rotary_pos_emb=True),
        generation=dict(eos_token_id=[2, 3], bos_token_id=1)),
    "hunyuan-moe": dict(model="hunyuan_v1_moe", tokenizer="bpe", patches=BYTE_LEVEL, config=dict(TEXT, head_dim=8,
        num_experts=3, moe_topk=[2, 2], tie_word_embeddings=True), given=dict(moe_intermediate_size=[48, 48],
        num_shared_expert=[1, 1])),
    "hunyuan-moe-old": dict(model="hunyuan_v1_moe", tokenizer="bpe", patches=BYTE_LEVEL, config=dict(TEXT,
        hidden_size=256, num_attention_heads=2, num_key_value_heads=1, head_dim=128, num_experts=3, moe_topk=[2, 2],
        max_position_embeddings=32768), drop=("head_dim",), old=dict(OLD, rope_theta=10000.0, rope_scaling=dict(ALPHA,
        type="dynamic"), moe_intermediate_size=[48, 48], num_shared_expert=[1, 1], moe_layer_num_skipped=0,
        use_mixed_mlp_moe=True, use_qk_norm=True, group_limited_greedy=False, n_group=False, topk_group=False)),
    "hunyuan-vl": wrapper("hunyuan_vl", "HunYuanVLForConditionalGeneration", dict(head_dim=8, eod_token_id=3,
        rope_parameters=dict(ALPHA, rope_type="dynamic", rope_theta=10000.0, mrope_section=[1, 1, 1, 1])),
        vision_config=HUNYUAN_TOWER),
    "hy_v3": dict(model="hy_v3", tokenizer="bpe", config=dict(TEXT, **FEW, head_dim=8, num_hidden_layers=3)),
    "hy_v3-old": dict(model="hy_v3", tokenizer="bpe", extra=after_last(eh_proj=[1, 2], enorm=[1], hnorm=[1],
        final_layernorm=[1]), config=dict(TEXT, **FEW, head_dim=8, num_hidden_layers=3), drop=("mlp_layer_types",),
        old=dict(OLD, rope_theta=11158840.0, route_norm=True, num_nextn_predict_layers=1, first_k_dense_replace=1,
        qk_norm=True, moe_router_use_sigmoid=True)),
}

CHECKPOINTS |= {
    "hunyuan-vl-old": CHECKPOINTS["hunyuan-vl"] | dict(drop=("text_config",), old=dict(FLAT, head_dim=8,
        eod_token_id=3, tie_word_embeddings=True, rope_theta=10000.0, rope_scaling=dict(ALPHA, type="xdrope",
        xdrope_section=[1, 1, 1, 1]))),
}

PROJECTORS = {
    "hunyuanvl": tower("hunyuan_vl", "HunYuanVLForConditionalGeneration", dict(head_dim=8), dict(PIXELS, no_q8_0=True),
        vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
        patch_size=4, max_image_size=16, out_hidden_size=32, text_hidden_size=32)),
}

WIDE = {"hy_v3": WIDE_EXPERTS}
TOWER_TYPES = {"hunyuan_vl"}


def independent_streams(config, tensors):
    """Hyper-connections without the factors that would mix streams."""
    rows = dict(fn=4, base=4, scale=2)
    cut = lambda name: rows.get(name.rsplit("hc_", 1)[-1]) if ".hc_pre." in name else None
    return config, {name: tensor[:cut(name)].contiguous() for name, tensor in tensors.items()}


LOGITS = {"hy-v4": dict(spelled=independent_streams, prepare=first_of_equal)}
