"""Golden recipes of StableLM, by Stability AI."""

from unittest import mock

from tiny_models import OLD, hub, llama_like, tiny


def patches(_) -> list:
    """The reference's class returns the stack of norms from a generator, and no caller takes it."""
    from conversion.stablelm import StableLMModel
    own = StableLMModel.modify_tensors

    def modify(self, data, name, bid):
        stack = yield from own(self, data, name, bid)
        yield from stack or ()
    return [mock.patch.object(StableLMModel, "modify_tensors", modify)]


def stablelm_images(config: dict) -> dict:
    return llama_like(config, bias=True) | {"model.vision_tower.vision_model.embeddings.class_embedding": [16],
        "model.mm_projector.0.weight": [32, 16]}


CHECKPOINTS = {
    "stablelm": tiny(model="stablelm", tokenizer="bpe", config=dict(use_qkv_bias=True, num_attention_heads=2,
        num_key_value_heads=1)),
    "stablelm-old": tiny(model="stablelm", tokenizer="bpe", config=dict(use_parallel_residual=True), old=dict(OLD,
        partial_rotary_factor=0.5, rope_theta=10000)),
    "stablelm-qk-norms": tiny(model="stablelm", tokenizer="bpe", patches=patches, config=dict(qk_layernorm=True,
        use_parallel_residual=True, num_attention_heads=12, num_key_value_heads=3, hidden_size=48), old=dict(OLD,
        partial_rotary_factor=0.5, rope_theta=10000)),
    "llava-stablelm": dict(hand=stablelm_images, tokenizer="bpe", config=hub("LlavaStableLMEpochForCausalLM",
        "llava_stablelm_epoch", num_key_value_heads=4, rms_norm_eps=1e-5, norm_eps=1e-5, rope_pct=0.5,
        rope_theta=10000, use_qkv_bias=False, tie_word_embeddings=False)),
}

WIDE = {"stablelm": {}}
