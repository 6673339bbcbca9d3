"""Golden recipes of MiniMax: text, and images in MiniMax M3."""

from logits_own import first_of_equal
from tiny_models import OLD, few, wrapper
from tiny_towers import tower

CHECKPOINTS = {
    "minimax-m2": dict(model="minimax_m2", tokenizer="bpe", config=few("num_local_experts", head_dim=8),
        more=dict(rotary_dim=4)),
    "minimax-m2-old": dict(model="minimax_m2", tokenizer="bpe", config=few("num_local_experts", head_dim=8),
        old=dict(OLD, rope_theta=5000000, rotary_dim=4, scoring_func="sigmoid", use_qk_norm=True,
        use_routing_bias=True, shared_intermediate_size=0)),
    "minimax-m3": wrapper("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", dict(head_dim=8,
        num_hidden_layers=3, rotary_dim=4, num_local_experts=3, num_experts_per_tok=2, dense_intermediate_size=40,
        shared_intermediate_size=48, index_n_heads=2, index_head_dim=8, index_block_size=16, index_topk_blocks=2,
        index_local_blocks=1, layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
        mlp_layer_types=["dense", "sparse", "sparse"]), vision_config=dict(hidden_size=16, intermediate_size=24,
        num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4), projector_hidden_size=16,
        more=dict(given=dict(n_shared_experts=1, moe_layer_freq=[0, 1, 1],
        sparse_attention_config=dict(sparse_num_index_heads=2, sparse_index_dim=8, sparse_topk_blocks=2,
        sparse_block_size=16, sparse_local_block=1)))),
}

PROJECTORS = {
    "minimaxm3": tower("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", dict(head_dim=8,
        num_local_experts=2, num_experts_per_tok=1, mlp_layer_types=["dense"], layer_types=["full_attention"]),
        vision_config=dict(hidden_size=80, intermediate_size=24, num_hidden_layers=3, num_attention_heads=1,
        image_size=16, patch_size=4), projector_hidden_size=16),
}


def half_rotates(config, tensors):
    """The converter reads `rotary_dim`, transformers the part of a head."""
    config["text_config"]["rope_parameters"]["partial_rotary_factor"] = 0.5
    return config, tensors


LOGITS = {"minimax-m3": dict(spelled=half_rotates, prepare=first_of_equal)}
TOWER_TYPES = {"minimax_m3_vl"}
