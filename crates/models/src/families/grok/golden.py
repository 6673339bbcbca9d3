"""Golden recipes of Grok, by xAI."""

from tiny_models import hub, layers, llama_like, sizes


def grok(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    layer = {"rms_norm": [h], "rms_norm_1": [h], "rms_norm_2": [h], "rms_norm_3": [h], "router": [3, h],
             "multi_head_attention.query": [q, h], "multi_head_attention.key": [k, h],
             "multi_head_attention.value": [k, h], "multi_head_attention.linear": [h, q]}
    for x in range(3):
        layer |= {f"moe.{x}.linear": [f, h], f"moe.{x}.linear_1": [h, f], f"moe.{x}.linear_v": [f, h]}
    return {"transformer.in_out_embed.weight": [v, h], "transformer.rms_norm.weight": [h], "lm_head.weight": [v, h], **layers(
        config, {f"transformer.decoder_layer.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def grok2(config: dict) -> dict:
    h, m, layer = config["hidden_size"], config["moe_intermediate_size"], {"block_sparse_moe.gate": [3, config["hidden_size"]]}
    layer |= {f"{x}_{y}_norm": [h] for x in ("pre", "post") for y in ("attn", "moe")}
    for x in range(3):
        layer |= {f"block_sparse_moe.experts.{x}.{w}": [h, m] if w == "w2" else [m, h] for w in ("w1", "w2", "w3")}
    return {name: shape for name, shape in llama_like(config).items() if "layernorm" not in name} | layers(
        config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})


CHECKPOINTS = {
    "grok": dict(hand=grok, config=hub("Grok1ForCausalLM", "grok-1", num_local_experts=3, num_experts_per_tok=2,
        embedding_multiplier_scale=78.38367176906169, output_multiplier_scale=0.5773502691896257, max_attn_value=30.0,
        rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False)),
    "grok2": dict(hand=grok2, config=hub("Grok1ForCausalLM", "git", head_dim=8, num_local_experts=3,
        num_experts_per_tok=2, moe_intermediate_size=24, embedding_multiplier_scale=90.50966799187809,
        output_multiplier_scale=0.5, attn_logit_softcapping=30.0, router_logit_softcapping=30.0,
        final_logit_softcapping=50, rms_norm_eps=1e-5, rope_theta=208533496, rope_type="original", scaling_factor=16.0,
        original_max_position_embeddings=128, extrapolation_factor=1.0, attn_factor=1.0, beta_fast=8, beta_slow=1,
        attn_temperature_len=1024, attn_output_multiplier=0.5, residual_moe=True, tie_word_embeddings=False)),
}

LOGITS = {"grok": dict(by="reference"), "grok2": dict(by="reference")}
