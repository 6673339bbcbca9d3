"""Golden recipes of Laguna, by Poolside."""

ROPE_KINDS = dict(full_attention=dict(rope_type="yarn", rope_theta=500000.0, partial_rotary_factor=0.5, factor=8.0,
    original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0, attention_factor=1.0),
    sliding_attention=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0))
LAGUNA = dict(head_dim=8, num_hidden_layers=3, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
    shared_expert_intermediate_size=40, sliding_window=16, moe_routed_scaling_factor=2.5, rope_parameters=ROPE_KINDS,
    layer_types=["full_attention", "sliding_attention", "sliding_attention"],
    mlp_layer_types=["dense", "sparse", "sparse"], num_attention_heads_per_layer=[4, 6, 4], bos_token_id=2,
    eos_token_id=[2, 3])

CHECKPOINTS = {
    "laguna": dict(model="laguna", tokenizer="bpe", special=["</assistant>"], config=LAGUNA),
    "laguna-by-element": dict(model="laguna", tokenizer="bpe", config=dict(LAGUNA, gating="per-element",
        num_attention_heads_per_layer=None, eos_token_id=2)),
}

WIDE = {"laguna": dict(head_dim=64, moe_intermediate_size=256, shared_expert_intermediate_size=256)}
