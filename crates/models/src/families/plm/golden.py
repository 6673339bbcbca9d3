"""Golden recipes of PLM: a small model with latent attention."""

from tiny_models import hub, layers, sizes


def plm(config: dict) -> dict:
    v, h, f, _, _ = sizes(config)
    r, n, p, u, q = (config[key] for key in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                                             "num_attention_heads"))
    layer = {"self_attn.q_proj": [q * (n + p), h], "self_attn.kv_a_proj_with_mqa": [r + p, h],
             "self_attn.kv_a_layernorm": [r], "self_attn.kv_b_proj": [q * (n + u), r], "self_attn.o_proj": [h, q * u],
             "mlp.up_proj": [f, h], "mlp.down_proj": [h, f], "input_layernorm": [h], "post_attention_layernorm": [h]}
    return {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h],
            **layers(config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})}


CHECKPOINTS = {
    "plm": dict(hand=plm, tokenizer="bpe", config=hub("PLMForCausalLM", "plm", num_key_value_heads=4, kv_lora_rank=16,
        q_lora_rank=None, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, hidden_act="relu2",
        rms_norm_eps=1e-6, rope_theta=100000.0, tie_word_embeddings=True)),
}

LOGITS = {"plm": dict(by="reference")}
