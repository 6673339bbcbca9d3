"""Golden recipes of MiniCPM, by OpenBMB: text, and images in MiniCPM-V."""

from tiny_models import AS_IT_IS, FACTORS, OLD, TEXT, llama_like, narrow_hub, tiny
from tiny_towers import SIGLIP, tower

CHECKPOINTS = {
    "minicpm-longrope": tiny(hand=llama_like, config=narrow_hub("MiniCPMForCausalLM", "minicpm", scale_emb=12,
        dim_model_base=256, scale_depth=1.4, tie_word_embeddings=False, rope_theta=10000.0,
        rope_scaling=dict(rope_type="longrope", original_max_position_embeddings=65536, **FACTORS))),
    "minicpm": tiny(hand=llama_like, config=narrow_hub("MiniCPMForCausalLM", "minicpm", scale_emb=12,
        dim_model_base=256, scale_depth=1.4)),
    "minicpm3": dict(model="minicpm3", config=dict(TEXT, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=24,
        qk_nope_head_dim=12, qk_rope_head_dim=8)),
    "minicpm3-old": dict(model="minicpm3", config=dict(TEXT, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=24,
        qk_nope_head_dim=12, qk_rope_head_dim=8, tie_word_embeddings=False), drop=("head_dim", "v_head_dim"),
        old=dict(OLD, rope_theta=10000.0, rope_scaling=dict(type="longrope", long_factor=[1.0, 1.5, 2.0, 4.0],
        short_factor=[1.0, 1.0, 1.25, 1.5], original_max_position_embeddings=512))),
}

PROJECTORS = {
    "minicpmv4_6": tower("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", dict(head_dim=8), dict(AS_IT_IS,
        preprocessor=dict(scale_resolution=20)), vision_config=dict(SIGLIP, insert_layer_id=1), insert_layer_id=1),
    "minicpmv4_6-4x": tower("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", dict(head_dim=8), dict(AS_IT_IS,
        preprocessor=dict(downsample_mode="4x")), vision_config=SIGLIP),
}

LOGITS = {"minicpm": dict(by="reference"), "minicpm-longrope": dict(by="reference")}


def look(model, image, processor):
    from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import MiniCPMV4_6ImageProcessorPil as Processor
    from transformers.models.minicpmv4_6.processing_minicpmv4_6 import MiniCPMV4_6Processor
    mode = model.config.downsample_mode
    made = Processor(scale_resolution=24, patch_size=4, downsample_mode=mode, **processor)(image, return_tensors="pt")
    inputs = {key: made[key] for key in ("pixel_values", "target_sizes")}
    tiles = model.model.get_image_features(**inputs, downsample_mode=mode, return_dict=True).pooler_output
    owner = type("Owner", (), dict(image_start_token="<image>", image_end_token="</image>", slice_start_token="<slice>",
        slice_end_token="</slice>", image_token="<row>", slice_mode=True))
    divisor = 4 if mode == "4x" else 16
    text = MiniCPMV4_6Processor.replace_image_token(owner, made, 0, image_token_divisor=divisor)
    while "<row><row>" in text:
        text = text.replace("<row><row>", "<row>")
    *before, after = text.split("<row>")
    import torch
    return torch.cat(list(tiles)), [], inputs, ([(text, len(tile)) for text, tile in zip(before, tiles, strict=True)], after)


def seeing(**config) -> dict:
    return dict(tower("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", dict(TEXT, head_dim=8, num_hidden_layers=4),
        AS_IT_IS, vision_config=dict(SIGLIP, insert_layer_id=1), insert_layer_id=1, **config), look=look)


VISION = {
    "minicpmv4_6": seeing() | dict(preprocessor=dict(scale_resolution=24)),
    "minicpmv4_6-4x": seeing(downsample_mode="4x") | dict(preprocessor=dict(scale_resolution=24, downsample_mode="4x")),
}
