"""Golden recipes of PaddleOCR-VL, by Baidu: text and images."""

from tiny_models import FLAT, ROPE3, ROPE_OF_IMAGES, wrapper
from tiny_towers import PIXELS, SHALLOW_SIGLIP, SIGLIP, grid_look, tower

PADDLE_TEXT = dict(head_dim=8, rope_parameters=dict(ROPE3, rope_theta=500000.0))

CHECKPOINTS = {
    "paddleocr": wrapper("paddleocr_vl", "PaddleOCRVLForConditionalGeneration", PADDLE_TEXT,
        vision_config=SHALLOW_SIGLIP, more=dict(tokenizer="spm", tokenizer_config=dict(add_prefix_space=False))),
}

CHECKPOINTS |= {
    "paddleocr-old": CHECKPOINTS["paddleocr"] | dict(drop=("text_config",), old=dict(FLAT, head_dim=8,
        rope_theta=500000, rope_scaling=dict(ROPE_OF_IMAGES, type="default"))),
}

PROJECTORS = {
    "paddleocr": tower("paddleocr_vl", "PaddleOCRVLForConditionalGeneration", dict(head_dim=8, rope_parameters=ROPE3),
        dict(PIXELS, hub=[("model.projector.", "mlp_AR."), ("model.visual.vision_model.", "visual.vision_model.")],
        hub_config=dict(architectures=["PaddleOCRVisionModel"])), vision_config=SIGLIP),
}

WIDE = {"paddleocr": dict(head_dim=64)}


def text_logits(folder, tokens):
    """PaddleOCR's text part, with positions of text alone."""
    import torch
    import transformers
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy(), False, None


LOGITS = {"paddleocr": dict(run=text_logits)}

# Bounds as in the preprocessor's file.
LOOK = grid_look("paddleocr_vl.image_processing_pil_paddleocr_vl", "PaddleOCRVLImageProcessorPil",
    dict(shortest_edge=64, longest_edge=4096))
VISION = {
    "paddleocr": dict(tower("paddleocr_vl", "PaddleOCRVLForConditionalGeneration", dict(head_dim=8, num_hidden_layers=2,
        rope_parameters=ROPE3), dict(PIXELS, tokenizer="spm"), vision_config=SIGLIP), **LOOK),
}
