"""Golden recipes of Maple: a mixture of experts with sliding windows."""

from tiny_models import FEW, WIDE_EXPERTS, hub, mixtures

CHECKPOINTS = {
    "maple": dict(hand=mixtures(), tokenizer="bpe", config=hub("MapleForCausalLM", "maple", **FEW, head_dim=8,
        hidden_act="silu", norm_topk_prob=True, nope_on_global_attention=True, num_shared_experts=0, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"], rope_theta=10000.0, rms_norm_eps=1e-6,
        tie_word_embeddings=False)),
}

WIDE = {"maple": WIDE_EXPERTS}

LOGITS = {"maple": dict(by="reference")}
