"""Golden recipes of Apertus, by the Swiss AI Initiative."""

from tiny_models import LLAMA3, OLD, TEXT

CHECKPOINTS = {
    "apertus": dict(model="apertus", tokenizer="bpe", config=TEXT),
    "apertus-old": dict(model="apertus", tokenizer="bpe", config=dict(TEXT, num_hidden_layers=11), old=dict(OLD,
        rope_theta=12000000, rope_scaling=LLAMA3, qk_norm=True, post_norm=False, mlp_bias=False)),
}

WIDE = {"apertus": {}}
