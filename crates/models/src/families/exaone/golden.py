"""Golden recipes of EXAONE, by LG: text, and images in EXAONE 4.5."""

from headers import ROPE, plain_layer
from tiny_models import FEW, LLAMA3, OLD, TEXT, fast_tokenizer, hub, layers, sizes, tiny, with_tokenizer, wrapper
from tiny_towers import PIXELS, QWEN25_VISION, grid_look, tower


def exaone(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    layer = {"ln_1": [h], "attn.attention.q_proj": [q, h], "attn.attention.k_proj": [k, h],
             "attn.attention.v_proj": [k, h], "attn.attention.out_proj": [h, q], "ln_2": [h], "mlp.c_fc_0": [f, h],
             "mlp.c_fc_1": [f, h], "mlp.c_proj": [h, f]}
    head = {} if config["tie_word_embeddings"] else {"lm_head.weight": [v, h]}
    return {"transformer.wte.weight": [v, h], "transformer.ln_f.weight": [h], **head,
            **layers(config, {f"transformer.h.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def exaone_mtp(tensors: dict, config) -> dict:
    """The prediction: a dense layer, as the first is, and its own tensors."""
    import torch
    text = config.get_text_config()
    width = text.hidden_size
    copies = {f"mtp.layers.0.{name.split('layers.0.')[1]}": tensor.clone() for name, tensor in tensors.items()
              if "layers.0." in name and "visual" not in name}
    shapes = {"fc": [width, 2 * width], "pre_fc_norm_embedding": [width], "pre_fc_norm_hidden": [width], "norm": [width]}
    return tensors | copies | {f"mtp.{name}.weight": torch.ones(shape, dtype=torch.bfloat16)
                               for name, shape in shapes.items()}


EXAONE_MOE = dict(TEXT, **FEW, num_hidden_layers=4, head_dim=8, sliding_window=16, num_shared_experts=1)
EXAONE_TOWER = dict(QWEN25_VISION, depth=1, num_key_value_heads=1, fullatt_block_indexes=[0])

CHECKPOINTS = {
    "exaone4": tiny(model="exaone4", tokenizer="bpe", config=dict(sliding_window=64, num_hidden_layers=4)),
    "exaone4-old": tiny(model="exaone4", tokenizer="bpe", config=dict(tie_word_embeddings=True, head_dim=8),
        drop=("layer_types",), old=dict(OLD, rope_theta=1000000, rope_scaling=LLAMA3, sliding_window=None,
        sliding_window_pattern=None, layer_types=["full_attention"] * 2)),
    "exaone4-pattern-old": tiny(model="exaone4", tokenizer="bpe", config=dict(num_hidden_layers=4, head_dim=8),
        old=dict(OLD, rope_theta=1000000, rope_scaling=LLAMA3, sliding_window=4096, sliding_window_pattern="LLLG")),
    "exaone": dict(hand=exaone, tokenizer="bpe", patches=with_tokenizer(fast_tokenizer),
        rename=dict(num_hidden_layers="num_layers", rms_norm_eps="layer_norm_epsilon"), config=hub("ExaoneForCausalLM", "exaone", activation_function="silu",
        head_dim=8, rms_norm_eps=1e-5, rope_theta=1000000, tie_word_embeddings=True, rope_scaling=LLAMA3,
        attention_dropout=0.0, embed_dropout=0.0)),
    # The first release: no scaling, no length of heads, an output of its own.
    "exaone3": dict(hand=exaone, tokenizer="bpe", rename=dict(num_hidden_layers="num_layers",
        rms_norm_eps="layer_norm_epsilon"), config=hub("ExaoneForCausalLM", "exaone", activation_function="silu",
        rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=False, rope_scaling=None)),
    "exaone4.5": wrapper("exaone4_5", "Exaone4_5_ForConditionalGeneration", dict(model_type="exaone4", head_dim=8,
        num_hidden_layers=4, sliding_window=16), vision_config=EXAONE_TOWER),
    "exaone4.5-old": wrapper("exaone4_5", "Exaone4_5_ForConditionalGeneration", dict(model_type="exaone4", head_dim=8,
        num_hidden_layers=4, sliding_window=16, num_nextn_predict_layers=1, mtp_share_layers=True,
        rope_parameters=dict(LLAMA3, rope_theta=1000000.0)), vision_config=EXAONE_TOWER, more=dict(extra=exaone_mtp)),
    "exaone-moe": dict(model="exaone_moe", tokenizer="bpe", config=dict(EXAONE_MOE, n_group=1, topk_group=1)),
    "exaone-moe-old": dict(model="exaone_moe", tokenizer="bpe", extra=exaone_mtp, config=dict(EXAONE_MOE,
        num_nextn_predict_layers=1), drop=("mlp_layer_types", "first_k_dense_replace"), old=dict(OLD,
        architectures=["ExaoneMoEForCausalLM"], first_last_k_dense_replace=1, rope_theta=1000000,
        scoring_func="sigmoid", rope_scaling=dict(rope_type="default"), sliding_window_pattern="LLLG",
        topk_method="noaux_tc")),
}

PROJECTORS = {
    "exaone4_5": tower("exaone4_5", "Exaone4_5_ForConditionalGeneration", dict(head_dim=8, model_type="exaone4"),
        dict(PIXELS, hub=[("visual.", "model.visual."), ("model.model.", "model.")]), vision_config=dict(QWEN25_VISION,
        num_key_value_heads=1)),
}

WIDE = {"exaone4": {}}
LOGITS_FILES = {"exaone": (plain_layer(), ROPE)}


def without_windows(model):
    """llama.cpp has windows in models of 64 layers only; in others all layers rotate."""
    config = model.config.get_text_config()
    config.sliding_window = config.max_position_embeddings
    for module in model.modules():
        if hasattr(module, "is_sliding"):
            module.sliding_window = None


# llama.cpp refuses the second and third: their heads are not a share of the width.
LOGITS = {"exaone4": dict(by="reference"), "exaone4-pattern-old": dict(prepare=without_windows),
          "exaone4.5": dict(prepare=without_windows)}
TOWER_TYPES = {"exaone4_5"}

# Bounds as in the preprocessor's file.
LOOK = grid_look("qwen2_vl.image_processing_pil_qwen2_vl", "Qwen2VLImageProcessorPil",
    dict(shortest_edge=64, longest_edge=1 << 16), temporal_patch_size=2)
VISION = {
    # More than one window of 112 pixels across.
    "exaone4_5": dict(tower("exaone4_5", "Exaone4_5_ForConditionalGeneration", dict(head_dim=8, model_type="exaone4",
        num_hidden_layers=2), vision_config=dict(QWEN25_VISION, num_key_value_heads=1)), **LOOK, repeat=(3, 4),
        preprocessor=dict(min_pixels=64, max_pixels=1 << 16)),
}
