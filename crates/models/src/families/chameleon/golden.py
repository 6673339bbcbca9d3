"""Golden recipes of Chameleon, by Meta."""

from tiny_models import OLD, TEXT

CHECKPOINTS = {
    "chameleon": dict(model="chameleon", **{"class": "ChameleonForConditionalGeneration"}, bare=True, tokenizer="bpe",
        config=dict(TEXT, num_key_value_heads=4, vocabulary_map={"<image>": 5}, vq_config=dict(embed_dim=8,
        num_embeddings=16, latent_channels=8, resolution=16, base_channels=32, channel_multiplier=[1],
        num_res_blocks=1))),
}

CHECKPOINTS |= {
    "chameleon-old": CHECKPOINTS["chameleon"] | dict(old=dict(OLD, rope_theta=10000.0, rope_scaling=None)),
}


def first_heads(model):
    """All heads have the norms of the first one, the only ones that the file keeps."""
    for name, parameter in model.named_parameters():
        if "q_norm" in name or "k_norm" in name:
            parameter.data[:] = parameter.data[:1].clone()


LOGITS = {name: dict(prepare=first_heads) for name in CHECKPOINTS}
TOWER_TYPES = {"chameleon"}
