"""Golden recipes of HRM Text, by Sapient."""

from tiny_models import TEXT

CHECKPOINTS = {
    "hrm_text": dict(model="hrm_text", tokenizer="bpe", config=dict(TEXT, num_key_value_heads=4, head_dim=8,
        H_cycles=2, L_cycles=2)),
}
