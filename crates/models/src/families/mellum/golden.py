"""Golden recipes of Mellum 2, by JetBrains."""

from tiny_models import FEW, TEXT, WIDE_EXPERTS

CHECKPOINTS = {
    "mellum": dict(model="mellum", tokenizer="bpe", config=dict(TEXT, **FEW, head_dim=8, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"])),
}

WIDE = {"mellum": WIDE_EXPERTS}
# llama.cpp has the base of full attention in every layer.
LOGITS = {"mellum": dict(config=dict(rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=500000.0))))}
