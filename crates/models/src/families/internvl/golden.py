"""Golden recipes of InternVL, by OpenGVLab: vision projectors for models of other families."""

from tiny_models import AS_IT_IS
from tiny_towers import ONE, tower, with_biases

INTERN = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2, image_size=[16, 16],
    patch_size=[4, 4], architectures=["InternVisionModel"])


def intern_chat(_: dict) -> dict:
    shapes = {"vision_model.embeddings.patch_embedding": [16, 3, 4, 4], "mlp1.0": [256], "mlp1.1": [32, 256], "mlp1.3": [32, 32]}
    plain = {"vision_model.embeddings.class_embedding": [1, 1, 16], "vision_model.embeddings.position_embedding": [1, 17, 16],
             "language_model.model.embed_tokens.weight": [384, 32]}
    for i in range(INTERN["num_hidden_layers"]):
        layer = f"vision_model.encoder.layers.{i}."
        shapes |= {layer + "attn.qkv": [48, 16], layer + "attn.proj": [16, 16], layer + "norm1": [16], layer + "norm2": [16],
                   layer + "mlp.fc1": [24, 16], layer + "mlp.fc2": [16, 24]}
        plain |= {layer + "ls1": [16], layer + "ls2": [16], layer + "attn.q_norm.weight": [16], layer + "attn.k_norm.weight": [16]}
    return with_biases(shapes) | plain


PROJECTORS = {
    "internvl": tower("internvl", "InternVLForConditionalGeneration", dict(model_type="qwen2"), dict(AS_IT_IS,
        hub=[("vision_tower.", "model.vision_tower."), ("multi_modal", "model.multi_modal"),
        ("model.model.", "model.")]), vision_config=INTERN),
    # As the authors' code has it; numbers of tiles.
    "internvl-old": dict(tokenizer="bpe", hand=intern_chat, config=dict(architectures=["InternVLChatModel"],
        downsample_ratio=0.25, min_dynamic_patch=1, max_dynamic_patch=12, llm_config=dict(ONE,
        architectures=["Qwen2ForCausalLM"], model_type="qwen2"), text_config=dict(vocab_size=384),
        vision_config=dict(INTERN, image_size=16, patch_size=4, hidden_act="gelu", layer_norm_eps=1e-5,
        qk_normalization=True))),
}


def look(model, image, processor):
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil as Processor
    side = model.config.vision_config.image_size[0]
    made = Processor(size=dict(height=side, width=side), crop_to_patches=True, max_patches=6, **processor)(
        image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"])
    tiles = model.model.get_image_features(**inputs, vision_feature_layer=-1, vision_feature_select_strategy="default",
        return_dict=True).pooler_output
    return tiles.flatten(0, 1), [], inputs, ([("", len(tile)) for tile in tiles], "")


VISION = {
    "internvl": dict(tower("internvl", "InternVLForConditionalGeneration", dict(model_type="qwen2", num_hidden_layers=2,
        architectures=["Qwen2ForCausalLM"]),
        dict(AS_IT_IS, more=dict(max_dynamic_patch=6)), vision_config=INTERN), look=look),
    "internvl-norms": dict(tower("internvl", "InternVLForConditionalGeneration", dict(model_type="qwen2",
        num_hidden_layers=2, architectures=["Qwen2ForCausalLM"]), dict(AS_IT_IS, more=dict(max_dynamic_patch=6)), vision_config=dict(INTERN,
        norm_type="rms_norm", use_qk_norm=True, attention_bias=True)), look=look),
}
