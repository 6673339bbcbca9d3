"""Golden recipes of LLaVA with the vision tower of Pixtral: projectors for models of the llama and mistral families."""

from tiny_models import wrapper
from tiny_towers import PIXTRAL, PREPROCESSOR, SHALLOW_SIGLIP, tower

BREAK = dict(special=["[IMG_BREAK]"])
# The reference looks for the embedding of [IMG_BREAK] under names that no checkpoint has.
BREAK_HUB = [("language_model.model.embed", "embed"), ("model.vision", "vision"), ("model.multi", "multi")]

CLIP = dict(SHALLOW_SIGLIP, model_type="clip_vision_model", projection_dim=16)
SIGLIP = dict(SHALLOW_SIGLIP, model_type="siglip_vision_model", projection_dim=32)


def text_part(model: str, name: str, text_class: str, text: dict, tower: dict, **more) -> dict:
    """A recipe of a wrapper that neither the reference nor a row here covers; the reference gets the class of its text model."""
    return wrapper(model, name, text, dict(reference=dict(set=dict(architectures=[text_class]))) | more, vision_config=tower)


CHECKPOINTS = {
    "text-of-aya-vision": text_part("aya_vision", "AyaVisionForConditionalGeneration", "Cohere2ForCausalLM",
        dict(model_type="cohere2", head_dim=8), SIGLIP, given=dict(rotary_pct=1.0)),
    "text-of-llava-next": text_part("llava_next", "LlavaNextForConditionalGeneration", "MistralForCausalLM",
        dict(model_type="mistral", head_dim=8), CLIP),
    "text-of-llava-onevision": text_part("llava_onevision", "LlavaOnevisionForConditionalGeneration", "Qwen2ForCausalLM",
        dict(model_type="qwen2"), SIGLIP),
    "text-of-ovis2": wrapper("ovis2", "Ovis2ForConditionalGeneration", dict(model_type="qwen2"), dict(
        reference=dict(set=dict(architectures=["Qwen2ForCausalLM"])), without=("visual_embeddings_table.weight",)),
        vision_config=dict(SHALLOW_SIGLIP, vocab_size=32, num_visual_indicator_tokens=2)),
    "text-of-paligemma": text_part("paligemma", "PaliGemmaForConditionalGeneration", "Gemma2ForCausalLM",
        dict(model_type="gemma2", head_dim=8), SIGLIP, tokenizer="spm"),
}

PROJECTORS = {
    "mistral3": tower("mistral3", "Mistral3ForConditionalGeneration", dict(model_type="mistral", head_dim=8,
        sliding_window=None), dict(BREAK, hub=BREAK_HUB), vision_config=PIXTRAL),
    "pixtral": tower("llava", "LlavaForConditionalGeneration", dict(model_type="mistral", head_dim=8), dict(BREAK,
        hub=BREAK_HUB, preprocessor=None, processor=dict(image_processor=PREPROCESSOR, patch_size=4)),
        vision_config=PIXTRAL, vision_feature_layer=-1),
}


def pixtral_look(model, image, processor):
    import torch
    from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil as Processor
    vision, side = model.config.vision_config, getattr(model.config, "spatial_merge_size", 1)
    factor = vision.patch_size * side
    made = Processor(size=dict(longest_edge=vision.image_size), patch_size=dict(height=factor, width=factor),
                     **processor)(image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"], image_sizes=torch.as_tensor(made["image_sizes"]))
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    height, width = inputs["image_sizes"][0].tolist()
    line = [model.config.image_token_id] * (width // factor) + [model.break_token]
    ids = (line * (height // factor))[:-1]
    # The token between rows of embeddings: its row is the file's copy of it.
    placed = model.get_input_embeddings().weight[torch.tensor(ids)].clone()
    placed[torch.tensor(ids) == model.config.image_token_id] = rows
    return placed, [], inputs, ids


VISION = {
    "pixtral": dict(tower("llava", "LlavaForConditionalGeneration", dict(model_type="mistral", head_dim=8,
        num_hidden_layers=2), BREAK, vision_config=dict(PIXTRAL, image_size=32), vision_feature_layer=-1,
        vision_feature_select_strategy="full"), look=pixtral_look),
    "mistral3": dict(tower("mistral3", "Mistral3ForConditionalGeneration", dict(model_type="mistral", head_dim=8,
        num_hidden_layers=2, sliding_window=None, rms_norm_eps=1e-5), BREAK, vision_config=dict(PIXTRAL,
        image_size=32)), look=pixtral_look),
}
