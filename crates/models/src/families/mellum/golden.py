"""Golden recipes of Mellum 2, by JetBrains."""

from tiny_models import FEW, TEXT, WIDE_EXPERTS

CHECKPOINTS = {
    "mellum": dict(model="mellum", tokenizer="bpe", config=dict(TEXT, **FEW, head_dim=8, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"])),
}

WIDE = {"mellum": WIDE_EXPERTS}
