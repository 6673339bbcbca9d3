"""Golden recipes of Bamba, by IBM: a hybrid of state-space and attention layers."""

from tiny_models import MAMBA, OLD

CHECKPOINTS = {
    "bamba": dict(model="bamba", tokenizer="bpe", config=dict(MAMBA, attn_layer_indices=[1])),
    "bamba-old": dict(model="bamba", tokenizer="bpe", config=dict(MAMBA, attn_layer_indices=[1],
        tie_word_embeddings=True), old=dict(OLD, rope_theta=10000.0, rope_scaling=None, attn_rotary_emb=4)),
}

# The part that is rotated is in `rope_parameters` here, where the reference does not look.
LOGITS = {"bamba": dict(config=dict(rope_parameters=dict(partial_rotary_factor=1.0)))}
