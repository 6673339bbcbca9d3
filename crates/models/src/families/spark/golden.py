"""Golden recipes of Spark X2.5, by iFlytek."""

from tiny_models import hub, layers, sizes


def spark(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    layer = {"input_layernorm": [h], "post_attention_layernorm": [h], "self_attn.q_k_v_proj": [q + 2 * k, h],
             "self_attn.g_proj": [config["num_attention_heads"], h], "self_attn.o_proj": [h, q],
             "mlp.gate_proj": [f, h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f]}
    return {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h],
            **layers(config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})}


CHECKPOINTS = {
    "spark2_5": dict(hand=spark, tokenizer="bpe", config=hub("Spark2_5ForCausalLM", "spark2_5", head_dim=8,
        sliding_window=16, layer_types=["sliding_attention", "full_attention"], hidden_act="gelu",
        gate_attn_act_mode="sigmoid", headwise_attn_output_gate=True, rms_norm_eps=1e-6, tie_word_embeddings=False,
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=1000000.0, partial_rotary_factor=0.5),
        sliding_attention=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)))),
}

LOGITS = {"spark2_5": dict(by="reference")}
