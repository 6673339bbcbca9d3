"""Golden recipes of MiniMax: text, and images in MiniMax M3."""

import json

from logits_own import first_of_equal
from tiny_models import HAND, OLD, few, sizes, wrapper
from tiny_parts import tensors, weights
from tiny_towers import tower, with_pillow

TEMPLATE = ("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}")


def minimax01(config: dict) -> dict:
    """Every eighth layer has full attention. The last ten tokens have embeddings of zeros."""
    v, h, f, q, k = sizes(config)

    def each(bid: int) -> dict:
        names = dict(input_layernorm=[h], post_attention_layernorm=[h], block_sparse_moe__gate=[2, h])
        if config["attn_type_list"][bid]:
            names |= dict(self_attn__q_proj=[q, h], self_attn__k_proj=[k, h], self_attn__v_proj=[k, h],
                self_attn__o_proj=[h, q])
        else:
            names |= dict(self_attn__qkv_proj=[3 * q, h], self_attn__output_gate=[q, h], self_attn__norm=[q],
                self_attn__out_proj=[h, q])
        for x in range(2):
            names |= {f"block_sparse_moe__experts__{x}__{name}": shape for name, shape in {
                "w1": [f, h], "w2": [h, f], "w3": [f, h]}.items()}
        return weights(**names)
    return tensors(8, {"model.embed_tokens.weight": f"until:{(v - 10) * h} {v}x{h}", "model.norm.weight": [h],
        "lm_head.weight": [v, h]}, each)


def minimax01_recipe(name: str, model_type: str) -> dict:
    """A recipe with an index, in which the reference looks up the file of the embedding."""
    betas = {f"layernorm_{part}_beta": 1.0 for part in ("full_attention", "linear_attention", "mlp")}
    alphas = {f"layernorm_{part}_alpha": 3.5565588200778455 for part in ("full_attention", "linear_attention", "mlp")}
    config = dict(HAND, architectures=[name], model_type=model_type, intermediate_size=24, num_hidden_layers=8, head_dim=8,
        attn_type_list=[0] * 7 + [1], rotary_dim=4, rope_theta=10000000, num_local_experts=2, num_experts_per_tok=2,
        hidden_act="silu", postnorm=True, output_router_logits=False, router_aux_loss_coef=0.001,
        router_jitter_noise=0.0, shared_intermediate_size=0, shared_moe_mode="sigmoid", attention_dropout=0.0,
        **betas, **alphas)
    index = dict(metadata={}, weight_map={name: "model.safetensors" for name in minimax01(config)})
    return dict(hand=minimax01, tokenizer="bpe", config=config,
        files={"model.safetensors.index.json": index, "chat_template.jinja": TEMPLATE})


def minimax_recipe() -> dict:
    """The spelling of transformers, which the reference does not read."""
    factors = {f"{part}_{factor}_factor": value for part in ("full_attn", "linear_attn", "mlp")
        for factor, value in (("alpha", 3.5), ("beta", 1.0))}
    own = minimax01_recipe("MiniMaxText01ForCausalLM", "minimax_text_01")
    keys = {key: own["config"][key] for key in ("attn_type_list", "architectures", "model_type")}
    alphas = {key: 3.5 if key.endswith("alpha") else 1.0 for key in own["config"] if key.startswith("layernorm_")}


    def with_index(folder) -> list:
        (folder / "model.safetensors.index.json").write_text(json.dumps(own["files"]["model.safetensors.index.json"]))
        return []
    return dict(model="minimax", tokenizer="bpe", config=few("num_local_experts", head_dim=8, num_hidden_layers=8,
        layer_types=["linear_attention"] * 7 + ["full_attention"], block_size=4, **factors) | dict(num_local_experts=2),
        files={"chat_template.jinja": TEMPLATE}, patches=with_index, reference=dict(set=keys | alphas | dict(rotary_dim=8)),
        without=("slope_rate", "query_decay", "key_decay", "diagonal_decay"))


CHECKPOINTS = {
    "minimax": minimax_recipe(),
    "minimax-text-01": minimax01_recipe("MiniMaxText01ForCausalLM", "minimax_text_01"),
    "minimax-m1": minimax01_recipe("MiniMaxM1ForCausalLM", "minimax_m1"),
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

MINIMAX_VISION = dict(hidden_size=80, intermediate_size=24, num_hidden_layers=3, num_attention_heads=1, image_size=16,
    patch_size=4)

PROJECTORS = {
    "minimaxm3": tower("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", dict(head_dim=8,
        num_local_experts=2, num_experts_per_tok=1, mlp_layer_types=["dense"], layer_types=["full_attention"]),
        vision_config=MINIMAX_VISION, projector_hidden_size=16),
}


def half_rotates(config, tensors):
    """The converter reads `rotary_dim`, transformers the part of a head."""
    config["text_config"]["rope_parameters"]["partial_rotary_factor"] = 0.5
    return config, tensors


WIDE = {"minimax-text-01": dict(head_dim=64)}
LOGITS = {"minimax-m3": dict(spelled=half_rotates, prepare=first_of_equal)}
TOWER_TYPES = {"minimax_m3_vl"}


def look(model, image, processor):
    from transformers.models.minimax_m3_vl.image_processing_minimax_m3_vl import MiniMaxM3VLImageProcessor
    # 64 pixels to an embedding, of which mtmd takes 8 to 576.
    size = dict(shortest_edge=8 * 64, longest_edge=576 * 64)
    made = with_pillow(MiniMaxM3VLImageProcessor)(size=size, patch_size=4, merge_size=2, temporal_patch_size=2,
        **processor)(image, return_tensors="pt")
    inputs = {key: made[key] for key in ("pixel_values", "image_grid_thw")}
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    return rows, [], inputs, [model.config.image_token_id] * len(rows)


VISION = {
    "minimaxm3": dict(tower("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", dict(head_dim=8, rotary_dim=8,
        rope_parameters=dict(rope_type="default", rope_theta=5000000.0, partial_rotary_factor=1.0), num_local_experts=2, num_experts_per_tok=1, num_hidden_layers=2, mlp_layer_types=["dense", "dense"],
        layer_types=["full_attention", "full_attention"]), vision_config=MINIMAX_VISION, projector_hidden_size=16),
        look=look),
}
