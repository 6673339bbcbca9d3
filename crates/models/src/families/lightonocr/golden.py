"""Golden recipes of LightOnOCR, by LightOn: the vision projector for a model of the qwen family."""

from tiny_models import AS_IT_IS
from tiny_towers import PIXTRAL, tower

PROJECTORS = {
    "lightonocr": tower("lighton_ocr", "LightOnOcrForConditionalGeneration", dict(model_type="qwen3", head_dim=8),
        dict(AS_IT_IS, hub_config=dict(architectures=["LightOnOCRForConditionalGeneration"])), vision_config=PIXTRAL),
}
