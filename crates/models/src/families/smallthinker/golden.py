"""Golden recipes of SmallThinker, by PowerInfer."""

from tiny_models import hub, mixtures

CHECKPOINTS = {
    "smallthinker": dict(hand=mixtures("gate up down", "block_sparse_moe", "primary_router", norms=False,
        length="moe_ffn_hidden_size", count="moe_num_primary_experts"), tokenizer="bpe",
        config=hub("SmallThinkerForCausalLM", "smallthinker", head_dim=8, moe_ffn_hidden_size=24,
        moe_num_primary_experts=3, moe_num_active_primary_experts=2, moe_primary_router_apply_softmax=False,
        rms_norm_eps=1e-6, rope_theta=1500000.0, rope_layout=[0, 1], sliding_window_layout=[0, 1],
        sliding_window_size=16, tie_word_embeddings=False), remove=("intermediate_size",)),
}

WIDE = {"smallthinker": dict(head_dim=64, moe_ffn_hidden_size=256)}
