"""Golden recipes of Seed OSS, by ByteDance."""

from tiny_models import OLD, tiny

CHECKPOINTS = {
    "seed_oss": tiny(model="seed_oss", tokenizer="bpe", config=dict(num_key_value_heads=2, head_dim=16)),
    "seed_oss-old": tiny(model="seed_oss", tokenizer="bpe", config=dict(head_dim=16), old=dict(OLD,
        rope_theta=10000000.0, rope_scaling=dict(rope_type="default"))),
}
