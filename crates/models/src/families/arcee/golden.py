"""Golden recipes of AFM, by Arcee."""

from tiny_models import OLD, tiny

CHECKPOINTS = {
    "arcee": tiny(model="arcee", tokenizer="bpe"),
    "arcee-old": tiny(model="arcee", tokenizer="bpe", config=dict(head_dim=8), old=dict(OLD, rope_theta=10000.0,
        rope_scaling=dict(rope_type="yarn", factor=20.0, original_max_position_embeddings=4096, beta_fast=32.0,
        beta_slow=1.0, mscale=1.0))),
}

WIDE = {"arcee": {}}
