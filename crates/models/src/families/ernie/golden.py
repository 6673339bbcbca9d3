"""Golden recipes of Ernie 4.5, by Baidu."""

from tiny_models import OLD, few, llama_like, narrow_hub, tiny


def with_ernie(tensors: dict, config) -> dict:
    """Baidu's own names, and multi-token prediction."""
    import torch
    more = {"model.mtp_emb_norm.0.weight": torch.ones([16], dtype=torch.bfloat16),
            "model.mtp_block.0.mlp.up_proj.weight": torch.ones([24, 16], dtype=torch.bfloat16)}
    return {name.replace("model.", "ernie.", 1): tensor for name, tensor in tensors.items()} | more


CHECKPOINTS = {
    "ernie4_5": tiny(model="ernie4_5", config=dict(head_dim=8), tokenizer_config=dict(add_prefix_space=False)),
    "ernie4_5-old": tiny(model="ernie4_5", config=dict(head_dim=8, tie_word_embeddings=False, use_bias=True),
        old=dict(OLD, rope_theta=500000.0, compression_ratio=1.0, rope_scaling=None)),
    "ernie4_5-fused": tiny(hand=lambda config: llama_like(config, "qkv_proj", "ernie.", fused_mlp=True),
        config=narrow_hub("Ernie4_5_ForCausalLM", "ernie4_5", rope_theta=500000.0, head_dim=8, use_bias=False)),
    "ernie4_5-moe": dict(model="ernie4_5_moe", tokenizer_config=dict(add_prefix_space=False),
        config=dict(few("moe_num_experts", moe_intermediate_size=12, moe_num_shared_experts=2), vocab_size=384)),
    "ernie4_5-moe-old": dict(model="ernie4_5_moe", extra=with_ernie, tokenizer_config=dict(add_prefix_space=False),
        drop=("moe_layer_end_index",), config=dict(few("moe_num_experts", moe_intermediate_size=12,
        moe_num_shared_experts=2), vocab_size=384), old=dict(OLD, rope_theta=500000.0, moe_layer_end_index=1,
        moe_use_aux_free=True, num_nextn_predict_layers=1)),
}

LOGITS = {
    "ernie4_5-fused": dict(by="reference"),
    # Baidu's own names.
    "ernie4_5-moe-old": dict(spelled=lambda config, tensors: (config, {
        name.replace("ernie.", "model.", 1): tensor for name, tensor in tensors.items() if ".mtp_" not in name})),
}
