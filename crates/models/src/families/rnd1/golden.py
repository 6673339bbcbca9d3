"""Golden recipes of RND1, by Radical Numerics: a diffusion model."""

from tiny_models import FEW, hub, mixtures

CHECKPOINTS = {
    "rnd1": dict(hand=mixtures(), tokenizer="bpe", config=hub("RND1", "rnd1", **FEW, head_dim=8, mask_token_id=3,
        norm_topk_prob=True, rms_norm_eps=1e-6, rope_theta=1000000.0, tie_word_embeddings=False)),
}

LOGITS = {"rnd1": dict(by="reference")}
