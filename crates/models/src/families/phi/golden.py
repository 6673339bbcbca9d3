"""Golden recipes of Phi, by Microsoft."""

from tiny_models import FACTORS, OLD, few, hub, llama_like, tiny
from tiny_towers import with_biases

PHI_ROPE = dict(rope_type="longrope", rope_theta=10000.0, short_mscale=1.25, long_mscale=1.5,
    original_max_position_embeddings=256, **FACTORS)


def without_towers(tensors: dict, _) -> dict:
    return {name: tensor for name, tensor in tensors.items() if "embed_tokens_extend" not in name}


CHECKPOINTS = {
    "phi4-multimodal": tiny(model="phi4_multimodal", config=dict(num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=512, original_max_position_embeddings=512, bos_token_id=1,
        eos_token_id=2, pad_token_id=0, vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, image_size=16, patch_size=4, image_token_id=10), audio_config=dict(hidden_size=16,
        intermediate_size=24, num_blocks=2, num_attention_heads=2, nemo_conv_channels=16, ext_pw_out_channel=16,
        depthwise_separable_out_channel=16, bias_max_distance=8, input_size=16, nemo_final_size=2, audio_token_id=9)),
        given_as=without_towers, reference=dict(set=dict(architectures=["Phi3ForCausalLM"], model_type="phi3"))),
    "phi3": tiny(model="phi3", config=dict(original_max_position_embeddings=512)),
    "phi3-longrope": tiny(model="phi3", config=dict(max_position_embeddings=4096, original_max_position_embeddings=256,
        sliding_window=128, rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, **FACTORS))),
    "phi3-longrope-old": tiny(model="phi3", tokenizer="bpe", tokenizer_config=dict(tokenizer_class="GPT2Tokenizer"),
        config=dict(max_position_embeddings=4096, original_max_position_embeddings=256), old=dict(OLD,
        rope_theta=250000.0, rope_scaling=dict(type="longrope", **FACTORS))),
    "phi3-su-old": tiny(model="phi3", config=dict(max_position_embeddings=4096, original_max_position_embeddings=256),
        old=dict(OLD, rope_theta=10000.0, rope_scaling=dict(type="su", **FACTORS))),
    "phi2": tiny(model="phi", tokenizer="bpe", config=dict(num_key_value_heads=4)),
    "phi2-old": tiny(model="phi", tokenizer="bpe", config=dict(num_key_value_heads=4), old=dict(OLD,
        partial_rotary_factor=0.5, rope_theta=10000.0, rope_scaling=None)),
    "phimoe": dict(model="phimoe", config=dict(few("num_local_experts"), vocab_size=384, attention_bias=True,
        lm_head_bias=True, max_position_embeddings=4096, rope_parameters=PHI_ROPE),
        more=dict(architectures=["PhiMoEForCausalLM"])),
    "phimoe-old": dict(model="phimoe", config=dict(few("num_local_experts"), vocab_size=384,
        max_position_embeddings=4096, rope_parameters=PHI_ROPE), old=dict(OLD, rope_theta=10000.0,
        original_max_position_embeddings=256,
        rope_scaling=dict({key: value for key, value in PHI_ROPE.items() if key not in ("rope_theta", "rope_type")},
        type="longrope")), more=dict(architectures=["PhiMoEForCausalLM"])),
    "phi4v": dict(hand=lambda config: {name.replace("up_gate", "gate_up"): shape for name, shape in llama_like(config,
        "qkv_proj", fused_mlp=True).items()}, tokenizer="bpe", tokenizer_config=dict(tokenizer_class="GPT2Tokenizer"),
        config=hub("Phi4ForCausalLMV", "phi4-siglip", original_max_position_embeddings=512, rms_norm_eps=1e-5,
        rope_theta=250000, rope_scaling=None, sliding_window=None, partial_rotary_factor=1.0,
        tie_word_embeddings=False)),
}

def phi4_tower(config: dict) -> dict:
    tower = "model.vision_tower.vision_tower.vision_model."
    both = {tower + "embeddings.patch_embedding": [16, 48], tower + "post_layernorm": [16], tower + "head.mlp.fc1": [24, 16],
            "model.mm_projector.0": [32, 16], "model.mm_projector.2": [32, 32]}
    for i in range(3):
        layer = f"{tower}encoder.layers.{i}."
        both |= {layer + "layer_norm1": [16], layer + "layer_norm2": [16], layer + "mlp.fc1": [24, 16],
                 layer + "mlp.fc2": [16, 24], **{f"{layer}self_attn.{x}_proj": [16, 16] for x in ("q", "k", "v", "out")}}
    return with_biases(both) | {tower + "embeddings.position_embedding.weight": [16, 16],
                                "model.embed_tokens.weight": [384, 32]}


PROJECTORS = {
    "phi4": dict(hand=phi4_tower, tokenizer="bpe", raw_config=True, preprocessor=dict(patch_size=4, min_num_patches=16,
        max_num_patches=256), config=hub("Phi4ForCausalLMV", "phi4-siglip", num_hidden_layers=1, vision_config=dict(
        model_type="siglip2_vision_model", hidden_size=16, intermediate_size=24, num_hidden_layers=3,
        num_attention_heads=2, layer_norm_eps=1e-6))),
}

WIDE = {"phi2": dict(num_key_value_heads=4), "phi3": {}}
LOGITS = {
    # The length beside the factors, where transformers 5 looks for it.
    "phi3-su-old": dict(spelled=lambda config, tensors: (config | dict(rope_scaling=config["rope_scaling"] | dict(
        original_max_position_embeddings=config["original_max_position_embeddings"])), tensors)),
    # llama.cpp has other norms and weights of experts, and demands a bias of the output.
    "phimoe": dict(by="reference"),
    "phimoe-old": None,
}
RECORDS = {"phi3": None}
