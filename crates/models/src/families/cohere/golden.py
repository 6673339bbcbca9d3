"""Golden recipes of Command R, Command A and Aya, by Cohere."""

from tiny_models import OLD, TEXT, after_last, tiny
from tiny_towers import SIGLIP, tower

COHERE = dict(TEXT, head_dim=8, num_hidden_layers=4, num_experts=3, num_experts_per_tok=2, num_shared_experts=1,
    sliding_window=16, prefix_dense_intermediate_size=64, mlp_layer_types=["dense", "sparse", "sparse", "sparse"])

CHECKPOINTS = {
    "cohere": tiny(model="cohere", tokenizer="bpe"),
    "cohere-old": tiny(model="cohere", tokenizer="bpe", config=dict(use_qk_norm=True, num_key_value_heads=4),
        drop=("tie_word_embeddings",), old=dict(OLD, rope_theta=75000000.0, model_max_length=131072,
        logit_scale=0.8333333333333334)),
    "cohere2": tiny(model="cohere2", tokenizer="bpe", config=dict(num_hidden_layers=4, sliding_window=64,
        layer_norm_eps=1e-4), given=dict(rotary_pct=1.0)),
    "cohere2-old": tiny(model="cohere2", tokenizer="bpe", drop=("layer_types",), old=dict(OLD, rope_theta=50000,
        rotary_pct=1.0, sliding_window=64, sliding_window_pattern=4, order_of_interleaved_layers="local_attn_first")),
    "cohere2moe": dict(model="cohere2_moe", tokenizer="bpe", config=COHERE),
    "cohere2moe-old": dict(model="cohere2_moe", tokenizer="bpe", extra=after_last(eh_proj=[1, 2], enorm=[1],
        hnorm=[1], shared_head__norm=[1]), config=dict(COHERE, num_shared_experts=0),
        drop=("mlp_layer_types", "layer_types"), old=dict(OLD, rope_theta=50000, first_k_dense_replace=1,
        num_nextn_predict_layers=1, expert_selection_fn="sigmoid", norm_topk_prob=True)),
}

WIDE = {
    "cohere2": {},
    "cohere2moe": dict(head_dim=64, intermediate_size=256, prefix_dense_intermediate_size=512),
}

# Newer than the pinned reference.
PROJECTORS = {
    "cohere2-vision": tower("cohere2_vision", "Cohere2VisionForConditionalGeneration", dict(model_type="cohere2", head_dim=8),
        dict(ahead=True, preprocessor=dict(max_patches=4)), vision_config=dict(SIGLIP, model_type="siglip_vision_model",
        vision_use_head=False),
        downsample_factor=2, alignment_intermediate_size=48),
}
