"""Golden recipes of GroveMoE, by inclusionAI."""

from tiny_models import FEW, hub, mixtures

CHECKPOINTS = {
    "grovemoe": dict(hand=mixtures(small=8), tokenizer="bpe", config=hub("GroveMoeForCausalLM", "grove_moe",
        **dict(FEW, num_experts=4), head_dim=8, norm_topk_prob=True, rms_norm_eps=1e-6, rope_theta=1000000.0,
        tie_word_embeddings=False)),
}
