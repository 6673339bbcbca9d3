"""Golden recipes of MiMo V2, by Xiaomi."""

from tiny_models import TEXT, hub
from tiny_towers import PIXELS, with_biases


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

# The target as its own draft: all tokens are accepted.
DRAFTS = {"mimo2": ("draft-simple", "mimo2")}

def mimo_towers(config: dict) -> dict:
    """The vision tower, and the part after the audio tokenizer."""
    layer = {"norm1.weight": [16], "norm2.weight": [16], "attn.sinks": [2], **with_biases({"attn.qkv": [32, 16],
        "attn.proj": [16, 16], "mlp.gate_proj": [24, 16], "mlp.up_proj": [24, 16], "mlp.down_proj": [16, 24]})}
    local = {"input_layernorm": [16], "post_attention_layernorm": [16], "mlp.gate_proj": [24, 16], "mlp.up_proj": [24, 16],
             "mlp.down_proj": [16, 24], **{f"self_attn.{x}_proj": [16, 16] for x in "qkvo"}}
    ear = "audio_encoder."
    return {"visual.patch_embed.proj.weight": [16, 3, 2, 4, 4], "visual.merger.ln_q.weight": [16], **with_biases({
        "visual.merger.mlp.0": [64, 64], "visual.merger.mlp.2": [32, 64]}),
        **{f"visual.blocks.{i}.{name}": shape for i in range(3) for name, shape in layer.items()},
        **{f"{ear}input_local_transformer.layers.{i}.{name}.weight": shape for i in range(2) for name, shape in local.items()},
        ear + "input_local_transformer.norm.weight": [16], ear + "projection.mlp.0.weight": [48, 32],
        ear + "projection.mlp.2.weight": [32, 48], **{f"speech_embeddings.{i}.weight": [10, 16] for i in range(3)},
        "model.embed_tokens.weight": [384, 32]}


def mimo_sound() -> dict:
    """The audio tokenizer: an encoder like Whisper's, codebooks of different lengths, and a decoder."""
    both = {"encoder.conv1": [16, 8, 3], "encoder.conv2": [16, 16, 3], "encoder.layer_norm": [16],
            "encoder.down_sample_norm": [16]}
    plain = {"encoder.down_sample_layer.0.weight": [16, 16, 2], "decoder.conv1.weight": [16, 16, 3]}
    for i in range(2):
        layer = f"encoder.layers.{i}."
        both |= {layer + name: shape for name, shape in {"self_attn.q_proj": [16, 16], "self_attn.v_proj": [16, 16],
            "self_attn.out_proj": [16, 16], "self_attn_layer_norm": [16], "final_layer_norm": [16], "fc1": [32, 16],
            "fc2": [16, 32]}.items()}
        plain[layer + "self_attn.k_proj.weight"] = [16, 16]
    for i, n_codes in enumerate((12, 10, 7)):
        book = f"encoder.quantizer.vq.layers.{i}._codebook."
        plain |= {book + "embed": [n_codes, 16], book + "embed_avg": [n_codes, 16], book + "cluster_size": [n_codes],
                  book + "inited": [1]}
    return with_biases(both) | plain


PROJECTORS = {
    "mimo2": PIXELS | dict(hand=mimo_towers, tokenizer="bpe", raw_config=True, no_q8_0=True,
        parts=dict(audio_tokenizer=mimo_sound()), files={"audio_tokenizer/config.json": dict(d_model=16,
        encoder_ffn_dim=32, encoder_attention_heads=2, encoder_layers=2, n_mels=8, hybrid_attention=True,
        swa_per_block=2, encoder_attn_window_size=[16, 0])}, config=hub("MiMoV2ForCausalLM", "mimo_v2",
        vision_config=dict(hidden_size=16, intermediate_size=24, depth=3, num_heads=2, num_key_value_heads=1, qk_channels=8,
        patch_size=4, spatial_merge_size=2, temporal_patch_size=2, fullatt_block_indexes=[0],
        vit_window_attn_types=[-1, 0, 1], visual_token_window_size=16, use_sink=True),
        audio_config=dict(audio_channels=3, input_local_layers=2, group_size=4))),
}
