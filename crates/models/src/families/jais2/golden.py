"""Golden recipes of Jais 2, by Inception."""

from tiny_models import OLD, TEXT

CHECKPOINTS = {
    "jais2": dict(model="jais2", tokenizer="bpe", config=TEXT),
}

CHECKPOINTS |= {
    "jais2-old": CHECKPOINTS["jais2"] | dict(old=dict(OLD, rope_theta=500000, rope_scaling=None)),
}

WIDE = {"jais2": {}}
