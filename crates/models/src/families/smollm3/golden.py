"""Golden recipes of SmolLM 3, by Hugging Face."""

from tiny_models import OLD, tiny

CHECKPOINTS = {
    "smollm3": tiny(model="smollm3", tokenizer="bpe"),
    "smollm3-old": tiny(model="smollm3", tokenizer="bpe", drop=("layer_types", "no_rope_layers"), old=dict(OLD,
        rope_theta=5000000.0, rope_scaling=None, sliding_window=None)),
}
