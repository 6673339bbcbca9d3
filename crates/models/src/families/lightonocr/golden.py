"""Golden recipes of LightOnOCR, by LightOn: the vision projector for a model of the qwen family."""

from tiny_models import AS_IT_IS
from tiny_towers import PIXTRAL, tower

PROJECTORS = {
    "lightonocr": tower("lighton_ocr", "LightOnOcrForConditionalGeneration", dict(model_type="qwen3", head_dim=8),
        dict(AS_IT_IS, hub_config=dict(architectures=["LightOnOCRForConditionalGeneration"])), vision_config=PIXTRAL),
}


def look(model, image, processor):
    import torch
    from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil as Processor
    vision = model.config.vision_config
    factor = vision.patch_size * model.config.spatial_merge_size
    made = Processor(size=dict(longest_edge=vision.image_size), patch_size=dict(height=factor, width=factor),
                     **processor)(image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"], image_sizes=torch.as_tensor(made["image_sizes"]))
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    return rows, [], inputs, [model.config.image_token_id] * len(rows)


VISION = {
    "lightonocr": dict(tower("lighton_ocr", "LightOnOcrForConditionalGeneration", dict(model_type="qwen3", head_dim=8,
        num_hidden_layers=2, rms_norm_eps=1e-5, architectures=["Qwen3ForCausalLM"]), AS_IT_IS, vision_config=dict(PIXTRAL, image_size=32)), look=look),
}
