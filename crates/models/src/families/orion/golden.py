"""Golden recipes of Orion, by OrionStar."""

from tiny_models import llama_like, narrow_hub, tiny

CHECKPOINTS = {
    "orion": tiny(hand=lambda config: llama_like(config, bias=True), config=narrow_hub("OrionForCausalLM", "orion",
        model_max_length=4096, rope_theta=10000.0)),
}

LOGITS = {"orion": dict(by="reference")}
