"""Golden recipes of OLMo, by the Allen Institute for AI."""

from tiny_models import OLD, few, tiny

CHECKPOINTS = {
    "olmo": tiny(model="olmo", tokenizer="bpe", config=dict(clip_qkv=8.0)),
    "olmo-old": tiny(model="olmo", tokenizer="bpe", config=dict(num_key_value_heads=4, tie_word_embeddings=True),
        old=dict(OLD, rope_theta=10000.0, rope_scaling=None, clip_qkv=None)),
    "olmo2": tiny(model="olmo2", tokenizer="bpe", config=dict(num_key_value_heads=4)),
    "olmo2-old": tiny(model="olmo2", tokenizer="bpe", config=dict(attention_bias=False), old=dict(OLD,
        rope_theta=500000, rope_scaling=None)),
    "olmo3-old": tiny(model="olmo3", tokenizer="bpe", drop=("layer_types",), config=dict(num_hidden_layers=4),
        old=dict(OLD, rope_theta=500000, sliding_window=4096, rope_scaling=dict(rope_type="yarn", factor=8.0,
        original_max_position_embeddings=8192, beta_fast=32, beta_slow=1, attention_factor=1.2079441541679836))),
    "olmo3": tiny(model="olmo3", tokenizer="bpe", config=dict(num_hidden_layers=4, sliding_window=64)),
    "olmoe": dict(model="olmoe", tokenizer="bpe", config=dict(few(), num_key_value_heads=4, intermediate_size=12)),
    "olmoe-old": dict(model="olmoe", tokenizer="bpe", config=dict(few(), intermediate_size=12, clip_qkv=8.0),
        old=dict(OLD, rope_theta=10000.0, rope_scaling=None)),
}

WIDE = {"olmo2": {}, "olmoe": dict(intermediate_size=256, num_key_value_heads=4)}
