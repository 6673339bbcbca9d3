"""Golden recipes of Kimi, by Moonshot: text, and images in Kimi VL and K2.5."""

from tiny_models import HAND, LATENT
from tiny_parts import ENDS, NORMS, kda, latent, mlp, tensors, weights
from tiny_towers import MOON, ONE, tower, with_biases, with_pillow

KIMI_LINEAR = dict(kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, num_key_value_heads=4,
    num_experts=3, num_experts_per_token=2, moe_intermediate_size=24, num_shared_experts=1, first_k_dense_replace=1,
    num_hidden_layers=3, moe_router_activation_func="sigmoid", mla_use_nope=True,
    linear_attn_config=dict(full_attn_layers=[2], kda_layers=[1, 3], head_dim=8, num_heads=4,
    short_conv_kernel_size=4))
KIMI_K3 = dict(HAND, kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10,
    num_key_value_heads=4, num_hidden_layers=3, num_experts=3, num_experts_per_token=2, moe_intermediate_size=32,
    num_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=2.5, moe_renormalize=True, mla_use_nope=True,
    moe_router_activation_func="sigmoid", routed_expert_hidden_size=32, hidden_act="situ", activation_situ_beta=1.5,
    activation_situ_linear_beta=0.5, attn_res_block_size=4, model_type="kimi_linear",
    linear_attn_config=dict(full_attn_layers=[2], kda_layers=[1, 3], num_heads=4, head_dim=8, short_conv_kernel_size=4,
    gate_lower_bound=-5.0))


def kimi_k3(config: dict) -> dict:
    full = kda() | weights(self_attn__g_proj=[32, 32]) | {"self_attn.A_log": "logarithms 4 F32"}
    full = {name: shape for name, shape in full.items() if ".g_a_" not in name and ".g_b_" not in name}
    residual = weights(self_attention_res_norm=[32], self_attention_res_proj=[1, 32], mlp_res_norm=[32],
                       mlp_res_proj=[1, 32])
    moe = {"gate.weight": [3, 32], "gate.e_score_correction_bias": [3], **mlp("shared_experts", 24), **weights(
        routed_expert_down_proj=[32, 32], routed_expert_up_proj=[32, 32], routed_expert_norm=[32]), **{
        f"experts.{x}.w{w}.weight": [32, 32] for x in range(3) for w in (1, 2, 3)}}
    each = lambda bid: NORMS | residual | (latent() | weights(self_attn__g_proj=[40, 32]) if bid == 1 else full) | (
        mlp() if bid == 0 else {f"block_sparse_moe.{name}": shape for name, shape in moe.items()})
    return {f"language_model.{name}": shape for name, shape in tensors(3, ENDS | weights(
        model__output_attn_res_norm=[32], model__output_attn_res_proj=[1, 32]), each).items()} | {
        "vision_tower.patch_embed.proj.weight": [16, 3, 4, 4], "mm_projector.pre_norm.weight": [16]}


CHECKPOINTS = {
    # transformers saves the dense part under the name of the mixtures.
    "kimi-linear": dict(model="kimi_linear", tokenizer="bpe", config=KIMI_LINEAR,
        tensor_names=[("layers.0.block_sparse_moe.", "layers.0.mlp.")]),
    "kimi-k3": dict(hand=kimi_k3, tokenizer="bpe", config=dict(architectures=["KimiK3ForConditionalGeneration"],
        model_type="kimi_k3", text_config=KIMI_K3, eos_token_id=3)),
}


def moon_vit(_: dict) -> dict:
    shapes = {"vision_tower.patch_embed.proj": [16, 3, 4, 4], "vision_tower.encoder.final_layernorm": [16],
              "multi_modal_projector.pre_norm": [16], "multi_modal_projector.linear_1": [64, 64],
              "multi_modal_projector.linear_2": [32, 64]}
    for i in range(MOON["num_hidden_layers"]):
        layer = f"vision_tower.encoder.blocks.{i}."
        shapes |= {layer + "wqkv": [48, 16], layer + "wo": [16, 16], layer + "norm0": [16], layer + "norm1": [16],
                   layer + "mlp.fc0": [24, 16], layer + "mlp.fc1": [16, 24]}
    return with_biases(shapes) | {"vision_tower.patch_embed.pos_emb.weight": [4, 4, 16],
                                  "language_model.model.embed_tokens.weight": [384, 32]}


def moon_vit_3d(config: dict) -> dict:
    return {name.replace("multi_modal_projector.pre_norm", "mm_projector.pre_norm")
             .replace("multi_modal_projector.linear_1", "mm_projector.proj.0")
             .replace("multi_modal_projector.linear_2", "mm_projector.proj.2"): shape for name, shape in moon_vit(config).items()}


PROJECTORS = {
    "kimivl": dict(tokenizer="bpe", hand=moon_vit, config=dict(architectures=["KimiVLForConditionalGeneration"],
        model_type="kimi_vl", text_config=dict(ONE, model_type="deepseek_v3"), vision_config=dict(MOON,
        model_type="moonvit"))),
    "kimik25": dict(tokenizer="bpe", preprocessor=dict(media_proc_cfg=dict(in_patch_limit=64,
        image_mean=[0.25, 0.5, 1.0])), hand=moon_vit_3d, config=dict(architectures=["KimiK25ForConditionalGeneration"],
        text_config=dict(ONE, model_type="kimi_k2"), vision_config=dict(vt_hidden_size=16, vt_intermediate_size=24,
        vt_num_hidden_layers=3, vt_num_attention_heads=2, num_attention_heads=2, patch_size=4, init_pos_emb_height=4,
        init_pos_emb_width=4, init_pos_emb_time=2, merge_kernel_size=[2, 2], projector_ln_eps=1e-6))),
}


def padded_shared_expert(config, tensors):
    """The shared expert as wide as the others, as llama.cpp wants it: with rows and columns of zeros."""
    import torch
    for name, tensor in tensors.items():
        if ".shared_experts." in name:
            missing = (0, 8, 0, 0) if "down_proj" in name else (0, 0, 0, 8)
            tensors[name] = torch.nn.functional.pad(tensor, missing)
    return config, tensors


LOGITS = {"kimi-k3": dict(by="reference", spelled=padded_shared_expert)}


def look(model, image, processor):
    from transformers.models.kimi_k25.image_processing_kimi_k25 import Kimi_K25ImageProcessor
    made = with_pillow(Kimi_K25ImageProcessor)(patch_size=4, merge_size=2, max_patches=96, **processor)(image, return_tensors="pt")
    inputs = {key: made[key] for key in ("pixel_values", "image_grid_thw")}
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output
    rows = rows[0] if isinstance(rows, (list, tuple)) else rows
    rows = rows.reshape(-1, rows.shape[-1])
    return rows, [], inputs, [model.config.image_token_id] * len(rows)


MOON_3D = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, patch_size=4,
    pos_emb_height=8, pos_emb_width=8, pos_emb_time=2, merge_kernel_size=[2, 2])
# The Hub's spelling, which the converter reads.
HUB_3D = dict(vt_hidden_size=16, vt_intermediate_size=24, vt_num_hidden_layers=3, vt_num_attention_heads=2,
    init_pos_emb_height=8, init_pos_emb_width=8, init_pos_emb_time=2)
VISION = {
    "kimik25": dict(tower("kimi_k25", "Kimi_K25ForConditionalGeneration", dict(LATENT, model_type="deepseek_v3",
        num_hidden_layers=2, first_k_dense_replace=1, n_group=1, topk_group=1), vision_config=MOON_3D,
        projection_hidden_size=16), tensor_names=[("language_model.model.blocks.", "language_model.model.layers."),
        ("model.mm_projector.", "mm_projector."), ("vision_tower.encoder.patch_embed.", "vision_tower.patch_embed.")],
        more=dict(architectures=["KimiK25ForConditionalGeneration"],
        vision_config=MOON_3D | HUB_3D), look=look, preprocessor=dict(media_proc_cfg=dict(in_patch_limit=96,
        image_mean=[0.5, 0.25, 0.125], image_std=[0.5, 0.75, 0.1]))),
}
