"""Golden recipes of MiMo V2, by Xiaomi."""

from tiny_models import TEXT, hub


def mimo(config: dict) -> dict:
    """Layers of both kinds, the projections as one, and three layers that predict."""
    v, h, q, d, u = (config[key] for key in ("vocab_size", "hidden_size", "num_attention_heads", "head_dim", "v_head_dim"))
    tensors = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h]}

    def layer(slides: int, mixture: int) -> dict:
        k = config["swa_num_key_value_heads" if slides else "num_key_value_heads"]
        f, names = config["moe_intermediate_size"], {}
        parts = {f"mlp.experts.{x}": f for x in range(config["n_routed_experts"])} if mixture else {
            "mlp": config["intermediate_size"]}
        for part, rows in parts.items():
            names |= {f"{part}.gate_proj": [rows, h], f"{part}.up_proj": [rows, h], f"{part}.down_proj": [h, rows]}
        return names | {"input_layernorm": [h], "self_attn.qkv_proj": [q * d + k * (d + u), h],
                        "self_attn.o_proj": [h, q * u], **({"mlp.gate": [config["n_routed_experts"], h]} if mixture else {})}
    for i, (slides, mixture) in enumerate(zip(config["hybrid_layer_pattern"], config["moe_layer_freq"])):
        names = layer(slides, mixture) | {"post_attention_layernorm": [h]}
        tensors |= {f"model.layers.{i}.{name}.weight": shape for name, shape in names.items()}
        tensors |= {f"model.layers.{i}.self_attn.attention_sink_bias": [q]} if slides else {}
        tensors |= {f"model.layers.{i}.mlp.gate.e_score_correction_bias": [config["n_routed_experts"]]} if mixture else {}
    for i in range(3):
        names = layer(1, 0) | {"pre_mlp_layernorm": [h], "eh_proj": [h, 2 * h], "enorm": [h], "hnorm": [h],
                               "final_layernorm": [h]}
        tensors |= {f"model.mtp.layers.{i}.{name}.weight": shape for name, shape in names.items()}
        tensors |= {f"model.mtp.layers.{i}.self_attn.attention_sink_bias": [q]}
    return tensors


CHECKPOINTS = {
    "mimo2": dict(model="mimo_v2_flash", tokenizer="bpe", config=dict(TEXT, head_dim=8, v_head_dim=4,
        n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, num_hidden_layers=6,
        num_key_value_heads=1, sliding_window=16, rope_parameters=dict(full_attention=dict(rope_type="default",
        rope_theta=5000000.0, partial_rotary_factor=0.5), sliding_attention=dict(rope_type="default",
        rope_theta=10000.0, partial_rotary_factor=0.5))), reference=dict(set=dict(model_type="unknown")),
        given=dict(swa_head_dim=8, swa_num_attention_heads=4, swa_v_head_dim=4, swa_num_key_value_heads=2,
        topk_method="noaux_tc", hybrid_layer_pattern=[0, 1, 1, 1, 1, 0], rope_parameters=dict(rope_type="default",
        rope_theta=5000000.0, partial_rotary_factor=0.5, sliding_attention=dict(rope_theta=10000.0)))),
    "mimo2-old": dict(hand=mimo, tokenizer="bpe", config=hub("MiMoV2ForCausalLM", "mimo_v2", num_hidden_layers=3,
        head_dim=8, v_head_dim=4, swa_head_dim=8, swa_v_head_dim=4, swa_num_attention_heads=4, num_key_value_heads=1,
        swa_num_key_value_heads=2, hybrid_layer_pattern=[0, 1, 1], moe_layer_freq=[0, 1, 1], n_routed_experts=3,
        num_experts_per_tok=2, moe_intermediate_size=24, n_group=1, topk_group=1, norm_topk_prob=True,
        scoring_func="sigmoid", topk_method="noaux_tc", rope_theta=5000000, swa_rope_theta=10000,
        partial_rotary_factor=0.5, layernorm_epsilon=1e-5, attention_value_scale=0.612, sliding_window=16,
        sliding_window_size=16, attention_chunk_size=16, tie_word_embeddings=False, add_swa_attention_sink_bias=True)),
}

# Its own draft: all of its tokens are accepted.
DRAFTS = {"mimo2": ("draft-simple", "mimo2")}
