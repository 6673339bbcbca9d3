"""Golden recipes of dots, by rednote: text, and images in dots.ocr."""

from logits_own import first_of_equal, text_of
from tiny_models import HAND, INDEXER, LATENT, OLD, few, predictions
from tiny_parts import ENDS, NORMS, experts, indexer, latent, mlp, prediction, tensors, weights
from tiny_towers import MOON, ONE, PIXELS, with_biases

DOTS3 = dict(HAND, **LATENT, **INDEXER, head_dim=20, n_shared_experts=1, scoring_func="sigmoid",
    topk_method="noaux_tc", norm_topk_prob=True, routed_scaling_factor=2.0, n_group=1, topk_group=1,
    first_k_dense_replace=1, moe_layer_freq=1, use_dsa=True, use_sliding_window=True, sliding_window_size=16,
    swa_num_attention_heads=2, swa_num_key_value_heads=2, swa_q_lora_rank=24, swa_kv_lora_rank=12, swa_head_dim=14,
    swa_qk_nope_head_dim=6, swa_qk_rope_head_dim=8, swa_v_head_dim=16, swa_rope_theta=10000.0, rope_theta=80000000.0,
    k_rope_only_layernorm=True, attention_gate_type="headwise", swa_attention_gate_type="headwise",
    apply_mla_qkv_lora_rescale=True, layer_types=["full_attention", "sliding_attention", "full_attention"])


def dots3(config: dict) -> dict:
    has_towers = "vision_config" in config

    def each(bid: int) -> dict:
        swa = bid >= 3 or config["layer_types"][bid] == "sliding_attention"
        names = NORMS | (latent(2, 12, 6, 8, 16) if swa else latent() | indexer()) | (mlp() if bid == 0 else experts())
        names |= weights(self_attn__g_proj=[2 if swa else 4, 32], self_attn__k_rope_only_layernorm=[8])
        return names | (prediction() if bid >= 3 else {})
    return tensors(3 if has_towers else 4, ENDS, each) | ({
        "vision_encoder.patch_embed.proj.weight": [16, 3, 4, 4], "audio_encoder.conv1.weight": [16, 8, 3]}
        if has_towers else {"model.mtp.embed_tokens.weight": [384, 32]})


CHECKPOINTS = {
    "dots1": dict(model="dots1", tokenizer="bpe", config=few("n_routed_experts", moe_intermediate_size=12,
        n_shared_experts=2, first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True)),
    "dots1-old": dict(model="dots1", tokenizer="bpe", drop=("layer_types", "num_local_experts"),
        config=few("n_routed_experts", moe_intermediate_size=12, n_shared_experts=2, first_k_dense_replace=1),
        old=dict(OLD, rope_theta=10000000, rope_scaling=None, n_routed_experts=4, scoring_func="sigmoid",
        sliding_window=None, moe_layer_freq=1)),
    "dots3": dict(hand=dots3, tokenizer="bpe", special=["<|endofassistant|>"], raw_config=True, config=dict(DOTS3,
        architectures=["Dots3NoteForConditionalGeneration"], model_type="dots3_note",
        vision_config=dict(adapter_out_dim=32), audio_config=dict(adapter_out_dim=32))),
    "dots3-mtp": dict(hand=dots3, tokenizer="bpe", special=["<|endofassistant|>"], raw_config=True, config=dict(DOTS3,
        architectures=["Dots3NoteForCausalLM"], model_type="dots3_note_text", apply_mla_qkv_lora_rescale=False)),
}

CHECKPOINTS |= predictions("dots3-mtp", CHECKPOINTS["dots3-mtp"])


def dots_ocr(_: dict) -> dict:
    tower = "vision_tower."
    shapes = {tower + "patch_embed.patchifier.norm": [16], tower + "post_trunk_norm": [16]}
    both = {tower + "patch_embed.patchifier.proj": [16, 3, 4, 4], tower + "merger.ln_q": [16], tower + "merger.mlp.0": [64, 64],
            tower + "merger.mlp.2": [32, 64]}
    for i in range(MOON["num_hidden_layers"]):
        layer = f"{tower}blocks.{i}."
        shapes |= {layer + "norm1": [16], layer + "norm2": [16], layer + "attn.qkv": [48, 16], layer + "attn.proj": [16, 16],
                   layer + "mlp.fc1": [24, 16], layer + "mlp.fc2": [16, 24], layer + "mlp.fc3": [24, 16]}
    return {f"{name}.weight": shape for name, shape in shapes.items()} | with_biases(both) | {
        "model.embed_tokens.weight": [384, 32]}


def dots3_towers(config: dict) -> dict:
    """A vision tower with one dense layer and two layers of experts, and an audio encoder."""
    eye, ear = "vision_encoder.", "audio_encoder.dots_encoder.speech_encoder."
    shapes = {eye + "patch_embed.norm": [16], eye + "post_trunk_norm": [16], eye + "patch_embed.proj": [16, 3, 4, 4]}
    both = {eye + "adapter.ln_q": [16], eye + "adapter.mlp.0": [64, 64], eye + "adapter.mlp.2": [32, 64],
            **{f"audio_encoder.audio_adapter.proj.{i}": shape for i, shape in {0: [16], 1: [32, 16], 3: [32, 32]}.items()},
            ear + "conv2d1": [8, 1, 3, 3], ear + "conv2d2": [8, 8, 3, 3], ear + "conv2d3": [8, 8, 3, 3]}
    shapes |= {ear + "conv_out": [16, 8], ear + "layer_norm": [16]}
    plain = {}
    for i, n_experts in enumerate(config["vision_config"]["pyramid_num_routed"]):
        layer = f"{eye}blocks.{i}."
        shapes |= {layer + "norm_1": [16], layer + "norm_2": [16], layer + "attn.qkv": [48, 16],
                   layer + "attn.proj": [16, 16], layer + "attn.q_norm": [8], layer + "attn.k_norm": [8]}
        parts = [f"{layer}mlp.experts.{x}." for x in range(n_experts)] if n_experts > 0 else [layer + "mlp."]
        shapes |= {part + name: shape for part in parts for name, shape in {
            "fc1": [24, 16], "fc2": [16, 24], "fc3": [24, 16]}.items()}
        if n_experts > 0:
            plain |= {layer + "mlp.gate_weight": [n_experts, 16], layer + "mlp.router_bias": [n_experts]}
    for i in range(2):
        layer = f"{ear}layers.{i}."
        both |= {layer + "self_attn." + name: [16, 16] for name in ("q_proj", "v_proj", "out_proj")}
        both |= {layer + "fc1": [64, 16], layer + "fc2": [16, 32]}
        shapes |= {layer + "self_attn.k_proj": [16, 16], layer + "self_attn_layer_norm": [16],
                   layer + "final_layer_norm": [16]}
    return {f"{name}.weight": shape for name, shape in shapes.items()} | with_biases(both) | plain | {
        "model.embed_tokens.weight": [384, 32]}


def dots3note(name: str) -> dict:
    """A recipe of a class with both towers."""
    vision = dict(embed_dim=16, hidden_size=32, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
        patch_size=4, pyramid_num_routed=[-1, 2, 3], capacity_factor=2, adapter_type="patch_merger",
        pre_pixel_shuffle=True, router_scoring_func="sigmoid", router_scale=1.0, temporal_patch_size=1, use_bias=False,
        use_qk_norm=True, rms_norm_eps=1e-5, spatial_merge_size=2)
    audio = dict(whisper_config=dict(d_model=16, encoder_ffn_dim=32, encoder_attention_heads=2, encoder_layers=2,
        num_mel_bins=8, activation_function="swiglu"), use_conv2d_stem=True, use_rope=True, use_rms_norm=True,
        use_causal=False, merge_factor=1, chunk_seconds=60, rope_parameters=dict(partial_rotary_factor=0.5,
        rope_theta=10000.0))
    return dict(hand=dots3_towers, tokenizer="bpe", raw_config=True, no_q8_0=True, preprocessor=dict(vision_config=dict(min_pixels=64,
        max_pixels=4096)), config=dict(DOTS3, num_hidden_layers=1, architectures=[name], model_type="dots3_note",
        vision_config=vision, audio_config=audio))


PROJECTORS = {
    "dots3note": dots3note("Dots3NoteForConditionalGeneration"),
    "dots3note-causal": dots3note("Dots3NoteForCausalLM"),
    "dotsocr": dict(PIXELS, tokenizer="bpe", hand=dots_ocr, config=dict(architectures=["DotsOCRForCausalLM"],
        model_type="dots_ocr", **ONE, vision_config=dict(MOON, embed_dim=16, spatial_merge_size=2, rms_norm_eps=1e-5))),
}

LOGITS = {"dots3": dict(spelled=text_of("Dots3NoteForCausalLM", "dots3_note_text", "model.",
    shared_experts_intermediate_size=24), prepare=first_of_equal)}
