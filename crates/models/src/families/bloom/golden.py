"""Golden recipes of BLOOM and BLOOMZ, by BigScience."""

from tiny_models import END, OLD

CHECKPOINTS = {
    "bloom": dict(model="bloom", tokenizer="bpe", bare=True, config=dict(END, hidden_size=32, n_layer=2, n_head=4)),
    "bloom-old": dict(model="bloom", tokenizer="bpe", bare=True, config=dict(END, hidden_size=32, n_layer=2, n_head=4),
        drop=("hidden_size", "n_layer", "n_head"), old=dict(OLD, n_embed=32, num_attention_heads=4, n_layer=2,
        seq_length=2048, offset_alibi=100)),
}

WIDE = {"bloom": dict(hidden_size=256)}
