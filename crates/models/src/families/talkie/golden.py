"""Golden recipes of Talkie."""

from tiny_models import TEXT, hub, layers, sizes


def talkie(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    names = {"attn.attn_query.weight": [q, h], "attn.attn_key.weight": [k, h], "attn.attn_value.weight": [k, h],
             "attn.attn_resid.weight": [h, q], "attn.head_gain.head_g": [config["num_attention_heads"]],
             "attn_gain.a_g": [1], "mlp.mlp_gate.weight": [f, h], "mlp.mlp_linear.weight": [f, h],
             "mlp.mlp_resid.weight": [h, f], "mlp_gain.a_g": [1], "embed_skip.a_g": [1]}
    return {"model.embed.weight": [v, h], "lm_head": [v, h], "lm_head_gain.w_g": [1],
            **layers(config, {f"model.blocks.{{}}.{name}": shape for name, shape in names.items()})}


CHECKPOINTS = {
    "talkie": dict(hand=talkie, tokenizer="bpe", config=dict(TEXT, architectures=["TalkieForCausalLM"],
        model_type="talkie", dtype="bfloat16", head_dim=12, rope_parameters=dict(rope_type="default",
        rope_theta=1000000.0))),
    "talkie-old": dict(hand=talkie, tokenizer="bpe", config=hub("TalkieForCausalLM", "talkie", head_dim=12,
        rope_theta=1000000.0)),
}

LOGITS = {"talkie": dict(by="reference"), "talkie-old": dict(by="reference")}
