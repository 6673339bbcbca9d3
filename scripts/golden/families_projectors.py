"""Tiny checkpoints whose projectors are converted, for projectors.py. Keys are those of families.py, and

  preprocessor  preprocessor_config.json, over PREPROCESSOR; none where it is None
  processor     processor_config.json
  hub           (old, new) parts of tensor names: the spelling of the Hub, under which the reference is given the weights
  hub_config    keys of config.json that it is given then
  no_q8_0       llama-quantize fails on it
  names         {name of a tensor with {bid}: its name in the file}, where the reference's table has two for one and takes
                the wrong one

A tower has more layers than the largest number in the name of a tensor of its projector: the reference maps
`linear_2` of a tower of three layers and not of one of two."""

from families_wrappers import AS_IT_IS, ROPE3, TEXT

PREPROCESSOR = dict(image_mean=[0.5, 0.25, 0.125], image_std=[0.5, 0.75, 0.1])
ONE = dict(TEXT, num_hidden_layers=1)
QWEN2 = dict(depth=3, embed_dim=16, hidden_size=32, num_heads=2, patch_size=4)
QWEN25 = dict(depth=4, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=32,
              fullatt_block_indexes=[1, 3])
QWEN3 = dict(depth=4, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=32,
             num_position_embeddings=16, deepstack_visual_indexes=[0, 2])
QWEN35 = {key: value for key, value in QWEN3.items() if key != "deepstack_visual_indexes"}
SIGLIP = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, image_size=32, patch_size=4)
PIXTRAL = dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
               head_dim=8, image_size=16, patch_size=4)
INTERN = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2, image_size=[16, 16],
              patch_size=[4, 4], architectures=["InternVisionModel"])
BREAK = dict(special=["[IMG_BREAK]"])
# The reference looks for the embedding of [IMG_BREAK] under names that no checkpoint has.
BREAK_HUB = [("language_model.model.embed", "embed"), ("model.vision", "vision"), ("model.multi", "multi")]


def tower(model: str, name: str, text: dict, more: dict | None = None, **parts) -> dict:
    return dict({"model": model, "class": name, "bare": True, "tokenizer": "bpe",
                 "config": dict(text_config=dict(ONE, **text), **parts)}, **(more or {}))


GLM4V = dict(depth=3, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, image_size=16, out_hidden_size=32)
MOON = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, patch_size=4)
GEMMA4 = dict(head_dim=8, num_hidden_layers=2, sliding_window=16, layer_types=["sliding_attention", "full_attention"],
              vocab_size_per_layer_input=384, hidden_size_per_layer_input=0)
GEMMA4V = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2,
               head_dim=8, patch_size=4, position_embedding_size=16)
WHISPER = dict(d_model=16, hidden_size=16, intermediate_size=32, encoder_ffn_dim=32, num_hidden_layers=3, encoder_layers=3,
               num_attention_heads=2, encoder_attention_heads=2, num_mel_bins=8, max_source_positions=16)


def with_biases(shapes: dict) -> dict:
    """Weights and biases of layers whose weights have these shapes."""
    return {f"{name}.weight": shape for name, shape in shapes.items()} | {
        f"{name}.bias": shape[:1] for name, shape in shapes.items()}


def intern_chat(_: dict) -> dict:
    shapes = {"vision_model.embeddings.patch_embedding": [16, 3, 4, 4], "mlp1.0": [64], "mlp1.1": [32, 64], "mlp1.3": [32, 32]}
    plain = {"vision_model.embeddings.class_embedding": [1, 1, 16], "vision_model.embeddings.position_embedding": [1, 17, 16],
             "language_model.model.embed_tokens.weight": [384, 32]}
    for i in range(INTERN["num_hidden_layers"]):
        layer = f"vision_model.encoder.layers.{i}."
        shapes |= {layer + "attn.qkv": [48, 16], layer + "attn.proj": [16, 16], layer + "norm1": [16], layer + "norm2": [16],
                   layer + "mlp.fc1": [24, 16], layer + "mlp.fc2": [16, 24]}
        plain |= {layer + "ls1": [16], layer + "ls2": [16], layer + "attn.q_norm.weight": [16], layer + "attn.k_norm.weight": [16]}
    return with_biases(shapes) | plain


def moon_vit(_: dict) -> dict:
    shapes = {"vision_tower.patch_embed.proj": [16, 3, 4, 4], "vision_tower.encoder.final_layernorm": [16],
              "multi_modal_projector.pre_norm": [16], "multi_modal_projector.linear_1": [64, 64],
              "multi_modal_projector.linear_2": [32, 64]}
    for i in range(MOON["num_hidden_layers"]):
        layer = f"vision_tower.encoder.blocks.{i}."
        shapes |= {layer + "wqkv": [48, 16], layer + "wo": [16, 16], layer + "norm0": [16], layer + "norm1": [16],
                   layer + "mlp.fc0": [24, 16], layer + "mlp.fc1": [16, 24]}
    return with_biases(shapes) | {"vision_tower.patch_embed.pos_emb.weight": [4, 4, 16],
                                  "language_model.model.embed_tokens.weight": [384, 32]}


def ultravox(_: dict) -> dict:
    shapes = {"audio_tower.conv1": [16, 8, 3], "audio_tower.conv2": [16, 16, 3], "audio_tower.layer_norm": [16]}
    for i in range(WHISPER["num_hidden_layers"]):
        layer = f"audio_tower.layers.{i}."
        shapes |= {layer + "self_attn.q_proj": [16, 16], layer + "self_attn.v_proj": [16, 16], layer + "self_attn.out_proj": [16, 16],
                   layer + "self_attn_layer_norm": [16], layer + "final_layer_norm": [16], layer + "fc1": [32, 16],
                   layer + "fc2": [16, 32]}
    names = with_biases(shapes) | {f"audio_tower.layers.{i}.self_attn.k_proj.weight": [16, 16]
                                   for i in range(WHISPER["num_hidden_layers"])}
    return names | {"audio_tower.embed_positions.weight": [16, 16], "multi_modal_projector.ln_pre.weight": [128],
                    "multi_modal_projector.linear_1.weight": [64, 128], "multi_modal_projector.linear_2.weight": [32, 32],
                    "multi_modal_projector.ln_mid.weight": [32], "language_model.model.embed_tokens.weight": [384, 32]}


def dots(_: dict) -> dict:
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


def siglip(prefix: str) -> dict:
    shapes = {prefix + "post_layernorm": [16]}
    for i in range(MOON["num_hidden_layers"]):
        layer = f"{prefix}encoder.layers.{i}."
        shapes |= {layer + f"self_attn.{name}_proj": [16, 16] for name in ("q", "k", "v", "out")}
        shapes |= {layer + "layer_norm1": [16], layer + "layer_norm2": [16], layer + "mlp.fc1": [24, 16], layer + "mlp.fc2": [16, 24]}
    return shapes


def youtu(_: dict) -> dict:
    shapes = siglip("siglip2.vision_model.") | {"siglip2.vision_model.embeddings.patch_embedding": [16, 48],
        "merger.mlp.0": [64, 64], "merger.mlp.2": [32, 64]}
    return with_biases(shapes) | {"merger.ln_q.weight": [16], "model.embed_tokens.weight": [384, 32]}


def cogvlm(_: dict) -> dict:
    shapes, tower = {"model.vision.patch_embedding.proj": [16, 3, 4, 4], "model.vision.linear_proj.norm1": [32]}, "model.vision."
    for i in range(MOON["num_hidden_layers"]):
        layer = f"{tower}transformer.layers.{i}."
        shapes |= {layer + "input_layernorm": [16], layer + "post_attention_layernorm": [16],
                   layer + "attention.query_key_value": [48, 16], layer + "attention.dense": [16, 16],
                   layer + "mlp.fc1": [24, 16], layer + "mlp.fc2": [16, 24]}
    return with_biases(shapes) | {
        tower + "boi": [1, 1, 32], tower + "eoi": [1, 1, 32], tower + "patch_embedding.cls_embedding": [1, 16],
        tower + "patch_embedding.position_embedding.weight": [17, 16], tower + "linear_proj.linear_proj.weight": [32, 16],
        tower + "linear_proj.gate_proj.weight": [48, 32], tower + "linear_proj.dense_h_to_4h.weight": [48, 32],
        tower + "linear_proj.dense_4h_to_h.weight": [32, 48], "model.embed_tokens.weight": [384, 32]}


def whisper(prefix: str, positions: bool = True) -> dict:
    names = {name.replace("audio_tower.", prefix): shape for name, shape in ultravox({}).items() if name.startswith("audio_tower.")}
    return {name: shape for name, shape in names.items() if positions or "embed_positions" not in name}


def meralion(_: dict) -> dict:
    adapter = {"ln_speech": [16], "speech_audio_adapter.mlp_adapter.0": [24, 48], "speech_audio_adapter.gate_proj": [24, 24],
               "speech_audio_adapter.pool_proj": [24, 24], "speech_audio_adapter.out_proj": [32, 24]}
    return whisper("speech_encoder.") | with_biases(adapter) | {"text_decoder.model.embed_tokens.weight": [384, 32]}


def glmasr(_: dict) -> dict:
    adapter = {"audio_encoder.layer_norm": [16], "audio_encoder.adapting.0": [48, 64], "audio_encoder.adapting.2": [32, 48]}
    return whisper("audio_encoder.whisper.") | with_biases(adapter) | {
        "audio_encoder.audio_bos_eos_token.weight": [2, 32], "model.embed_tokens.weight": [384, 32]}


def ling3vl(_: dict) -> dict:
    tower = "model.visual."
    shapes = {tower + "merger.norm": [16], "linear_proj.0": [48, 64], "linear_proj.2": [32, 48]}
    for i in range(QWEN35["depth"]):
        layer = f"{tower}blocks.{i}."
        shapes |= {layer + "norm1": [16], layer + "norm2": [16], layer + "attn.qkv": [48, 16], layer + "attn.proj": [16, 16],
                   layer + "mlp.linear_fc1": [24, 16], layer + "mlp.linear_fc2": [16, 24]}
    return with_biases(shapes) | {tower + "patch_embed.proj.weight": [16, 3, 2, 4, 4], tower + "pos_embed.weight": [16, 16],
                                  "model.language_model.embed_tokens.weight": [384, 32]}


def moon_vit_3d(config: dict) -> dict:
    names = {name.replace("multi_modal_projector.pre_norm", "mm_projector.pre_norm")
             .replace("multi_modal_projector.linear_1", "mm_projector.proj.0")
             .replace("multi_modal_projector.linear_2", "mm_projector.proj.2"): shape for name, shape in moon_vit(config).items()}
    return names


SAM = dict(width=16, layers=2, heads=2, downsample_channels=[16, 32], global_attn_indexes=[1])


def sam(_: dict) -> dict:
    """The first tower of DeepSeek-OCR, the projection, and what stands between rows and views."""
    tower = "model.sam_model."
    shapes = {tower + "patch_embed.proj": [16, 3, 4, 4], "model.projector.layers": [32, 32], tower + "neck.1": [8],
              tower + "neck.3": [8]}
    plain = {tower + "pos_embed": [1, 4, 4, 16], tower + "neck.0.weight": [8, 16, 1, 1], tower + "neck.2.weight": [8, 8, 3, 3],
             tower + "net_2.weight": [16, 8, 3, 3], tower + "net_3.weight": [32, 16, 3, 3], "model.view_seperator": [32],
             "model.embed_tokens.weight": [384, 32]}
    for i in range(SAM["layers"]):
        layer = f"{tower}blocks.{i}."
        shapes |= {layer + "norm1": [16], layer + "norm2": [16], layer + "attn.qkv": [48, 16], layer + "attn.proj": [16, 16],
                   layer + "mlp.lin1": [64, 16], layer + "mlp.lin2": [16, 64]}
        plain |= {layer + "attn.rel_pos_h": [7, 8], layer + "attn.rel_pos_w": [7, 8]}
    return with_biases(shapes) | plain


def deepseek_ocr(config: dict) -> dict:
    tower = "model.vision_model."
    shapes = {tower + "pre_layrnorm": [16]}
    plain = {tower + "embeddings.class_embedding": [16], tower + "embeddings.patch_embedding.weight": [16, 3, 4, 4],
             tower + "embeddings.position_embedding.weight": [17, 16], "model.image_newline": [32]}
    for i in range(4):
        layer = f"{tower}transformer.layers.{i}."
        shapes |= {layer + "layer_norm1": [16], layer + "layer_norm2": [16], layer + "self_attn.qkv_proj": [48, 16],
                   layer + "self_attn.out_proj": [16, 16], layer + "mlp.fc1": [64, 16], layer + "mlp.fc2": [16, 64]}
    return sam(config) | with_biases(shapes) | plain


def deepseek_ocr2(config: dict) -> dict:
    tower = "model.qwen2_model."
    plain = {tower + "query_768.weight": [4, 16], tower + "query_1024.weight": [8, 16], tower + "model.model.norm.weight": [16]}
    for i in range(4):
        layer = f"{tower}model.model.layers.{i}."
        plain |= with_biases({layer + "self_attn.q_proj": [16, 16], layer + "self_attn.k_proj": [8, 16],
                              layer + "self_attn.v_proj": [8, 16]})
        plain |= {layer + "self_attn.o_proj.weight": [16, 16], layer + "mlp.gate_proj.weight": [24, 16],
                  layer + "mlp.up_proj.weight": [24, 16], layer + "mlp.down_proj.weight": [16, 24],
                  layer + "input_layernorm.weight": [16], layer + "post_attention_layernorm.weight": [16]}
    return sam(config) | plain


def ocr(name: str, hand, width: dict, **more) -> dict:
    return dict(tokenizer="bpe", hand=hand, config=dict(architectures=[name], model_type="deepseek_vl_v2", torch_dtype="bfloat16",
        language_config=dict(ONE, architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2"), vocab_size=384,
        vision_config=dict(image_size=64, layers=4, mlp_ratio=3.7362, model_type="vision", width=dict(width, sam_vit_b=SAM))), **more)


CLIP = {"clip-l-14-224": dict(width=16, heads=2, image_size=16, layers=4, patch_size=4)}
PIXELS = dict(preprocessor=dict(min_pixels=64, max_pixels=4096))
TO_QWEN = dict(hub=[("model.visual.", "visual.")])
PROJECTORS = {
    "qwen3vl": tower("qwen3_vl", "Qwen3VLForConditionalGeneration",
        dict(head_dim=8, rope_parameters=dict(ROPE3, mrope_interleaved=True), rms_norm_eps=1e-5), vision_config=QWEN3),
    "qwen3vlmoe": tower("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", dict(head_dim=8, num_experts=2,
        num_experts_per_tok=1, moe_intermediate_size=24, rope_parameters=dict(ROPE3, mrope_interleaved=True)),
        vision_config=QWEN3),
    "qwen3.5moe": tower("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", dict(head_dim=8, num_experts=2,
        num_experts_per_tok=1), AS_IT_IS, vision_config=QWEN35),
    "qwen3.5": tower("qwen3_5", "Qwen3_5ForConditionalGeneration", dict(head_dim=8), AS_IT_IS, vision_config=QWEN35),
    "qwen2vl": tower("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3), TO_QWEN,
        vision_config=QWEN2),
    # The Hub's spelling: keys of the text part beside the others.
    "qwen2vl-old": tower("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3), dict(
        drop=("text_config",), old=dict(ONE, hidden_act="silu", rms_norm_eps=3e-06, sliding_window=256,
            use_sliding_window=False, max_window_layers=2, rope_theta=1000000.0, tie_word_embeddings=False,
            rope_scaling=dict(type="mrope", mrope_section=[2, 1, 1]), torch_dtype="bfloat16", transformers_version="4.43.0"),
        tensor_names=[("model.language_model.", "model."), ("model.visual.", "visual.")]), vision_config=QWEN2),
    "qwen2.5vl": tower("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", dict(rope_parameters=ROPE3), TO_QWEN,
        vision_config=QWEN25),
    "gemma3": tower("gemma3", "Gemma3ForConditionalGeneration", dict(head_dim=8, sliding_window=16),
        dict(hub=[("model.multi_modal", "multi_modal"), ("model.vision_tower.vision_model.", "vision_tower."),
                  ("model.vision_tower.", "vision_tower."), ("vision_tower.", "vision_tower.vision_model.")],
             preprocessor=dict(image_seq_length=16)),
        vision_config=SIGLIP, mm_tokens_per_image=16),
    "mistral3": tower("mistral3", "Mistral3ForConditionalGeneration",
        dict(model_type="mistral", head_dim=8, sliding_window=None),
        dict(BREAK, hub=BREAK_HUB),
        vision_config=PIXTRAL),
    "pixtral": tower("llava", "LlavaForConditionalGeneration", dict(model_type="mistral", head_dim=8),
        dict(BREAK, hub=BREAK_HUB,
             preprocessor=None, processor=dict(image_processor=PREPROCESSOR, patch_size=4)),
        vision_config=PIXTRAL, vision_feature_layer=-1),
    "smolvlm": tower("smolvlm", "SmolVLMForConditionalGeneration", dict(model_type="llama", architectures=["VLlama3ForCausalLM"]),
        dict(preprocessor=dict(size=dict(longest_edge=96))), vision_config=SIGLIP, scale_factor=3),
    "idefics3": tower("idefics3", "Idefics3ForConditionalGeneration", dict(model_type="llama"), vision_config=SIGLIP),
    "internvl": tower("internvl", "InternVLForConditionalGeneration", dict(model_type="qwen2"),
        dict(AS_IT_IS, hub=[("vision_tower.", "model.vision_tower."), ("multi_modal", "model.multi_modal"), ("model.model.", "model.")]),
        vision_config=INTERN),
    # As the authors' code has it; numbers of tiles.
    "internvl-old": dict(tokenizer="bpe", hand=intern_chat, config=dict(
        architectures=["InternVLChatModel"], downsample_ratio=0.25, min_dynamic_patch=1, max_dynamic_patch=12,
        llm_config=dict(ONE, architectures=["Qwen2ForCausalLM"], model_type="qwen2"), text_config=dict(vocab_size=384),
        vision_config=dict(INTERN, image_size=16, patch_size=4, hidden_act="gelu", layer_norm_eps=1e-5, qk_normalization=True))),
    # Under its name in the file this norm would be applied behind attention: llama.cpp loads it so, and computes nonsense.
    "llama4": tower("llama4", "Llama4ForConditionalGeneration", dict(head_dim=8, num_local_experts=2, intermediate_size_mlp=48),
        dict(names={"vision_model.model.layers.{bid}.post_attention_layernorm": "v.blk.{bid}.ln2"}),
        vision_config=dict(hidden_size=16, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2, image_size=16,
                           patch_size=4, vision_output_dim=32, projector_input_dim=32, projector_output_dim=32)),
    "lfm2vl": tower("lfm2_vl", "Lfm2VlForConditionalGeneration", dict(model_type="lfm2", layer_types=["full_attention"]),
        dict(hub=[("vision_tower.vision_model.", "vision_tower."), ("vision_tower.", "vision_tower.vision_model.")]),
        vision_config=dict(SIGLIP, patch_size=16, num_patches=16, vision_use_head=False), projector_hidden_size=24),
    "glm4v": tower("glm4v", "Glm4vForConditionalGeneration", dict(rope_parameters=dict(ROPE3, partial_rotary_factor=1.0)),
        AS_IT_IS, vision_config=GLM4V),
    "glm4v-moe": tower("glm4v_moe", "Glm4vMoeForConditionalGeneration", dict(n_routed_experts=2, num_experts_per_tok=1,
        moe_intermediate_size=12, rope_parameters=dict(ROPE3, partial_rotary_factor=0.5)), AS_IT_IS, vision_config=GLM4V),
    "glm-ocr": tower("glm_ocr", "GlmOcrForConditionalGeneration", dict(head_dim=16, rope_parameters=dict(ROPE3,
        partial_rotary_factor=1.0)), AS_IT_IS, vision_config=GLM4V),
    "kimivl": dict(tokenizer="bpe", hand=moon_vit, config=dict(architectures=["KimiVLForConditionalGeneration"],
        model_type="kimi_vl", text_config=dict(ONE, model_type="deepseek_v3"), vision_config=dict(MOON, model_type="moonvit"))),
    "minicpmv4_6": tower("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", dict(head_dim=8),
        dict(AS_IT_IS, preprocessor=dict(scale_resolution=20)), vision_config=SIGLIP),
    "minicpmv4_6-4x": tower("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", dict(head_dim=8),
        dict(AS_IT_IS, preprocessor=dict(downsample_mode="4x")), vision_config=SIGLIP),
    "gemma4": tower("gemma4", "Gemma4ForConditionalGeneration", GEMMA4, AS_IT_IS, vision_config=GEMMA4V, audio_config=None),
    "gemma4-clipped": tower("gemma4", "Gemma4ForConditionalGeneration", GEMMA4, AS_IT_IS,
        vision_config=dict(GEMMA4V, use_clipped_linears=True, standardize=True), audio_config=None),
    "gemma4-audio": tower("gemma4", "Gemma4ForConditionalGeneration", GEMMA4, dict(AS_IT_IS, no_q8_0=True),
        vision_config=GEMMA4V, audio_config=dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, subsampling_conv_channels=[8, 4],
                          output_proj_dims=24)),
    "gemma4uv": tower("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", dict(head_dim=8, sliding_window=16,
        layer_types=["full_attention"]), AS_IT_IS, audio_config=dict(audio_embed_dim=24), vision_config=dict(patch_size=4,
            pooling_kernel_size=2, mm_embed_dim=16, mm_posemb_size=8, output_proj_dims=32)),
    "janus": tower("janus", "JanusForConditionalGeneration", dict(model_type="llama", head_dim=8), PIXELS,
        vision_config=dict(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, image_size=16, patch_size=4,
            mlp_ratio=1.5, projection_dim=32, num_image_tokens=16), vq_config=dict(embed_dim=4, num_embeddings=8,
            latent_channels=4, base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1, projection_dim=32,
            num_hidden_layers=1, image_token_embed_dim=32)),
    "deepseekocr": ocr("DeepseekOCRForCausalLM", deepseek_ocr, CLIP, preprocessor=dict(image_seq_length=4)),
    "unlimitedocr": ocr("UnlimitedOCRForCausalLM", deepseek_ocr, CLIP),
    "deepseekocr2": ocr("DeepseekOCR2ForCausalLM", deepseek_ocr2, {"qwen2-0-5b": dict(dim=16)}),
    "minimaxm3": tower("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", dict(head_dim=8, num_local_experts=2,
        num_experts_per_tok=1, mlp_layer_types=["dense"], layer_types=["full_attention"]), vision_config=dict(hidden_size=80,
            intermediate_size=24, num_hidden_layers=3, num_attention_heads=1, image_size=16, patch_size=4),
        projector_hidden_size=16),
    "lightonocr": tower("lighton_ocr", "LightOnOcrForConditionalGeneration", dict(model_type="qwen3", head_dim=8),
        dict(AS_IT_IS, hub_config=dict(architectures=["LightOnOCRForConditionalGeneration"])), vision_config=PIXTRAL),
    "qwen2audio": tower("qwen2_audio", "Qwen2AudioForConditionalGeneration", dict(model_type="qwen2"),
        dict(preprocessor=None), audio_config=WHISPER),
    "voxtral": tower("voxtral", "VoxtralForConditionalGeneration", dict(model_type="llama", head_dim=8),
        dict(preprocessor=None), audio_config=WHISPER),
    "audioflamingo3": tower("audioflamingo3", "AudioFlamingo3ForConditionalGeneration", dict(model_type="qwen2"),
        dict(preprocessor=None), audio_config=WHISPER),
    "ultravox": dict(tokenizer="bpe", preprocessor=None, hand=ultravox, config=dict(architectures=["UltravoxModel"],
        model_type="ultravox", stack_factor=8, text_config=dict(ONE, model_type="llama"), audio_config=dict(
            WHISPER, model_type="whisper"))),
    "exaone4_5": tower("exaone4_5", "Exaone4_5_ForConditionalGeneration", dict(head_dim=8, model_type="exaone4"),
        dict(PIXELS, hub=[("visual.", "model.visual."), ("model.model.", "model.")]),
        vision_config=dict(QWEN25, num_key_value_heads=1)),
    "paddleocr": tower("paddleocr_vl", "PaddleOCRVLForConditionalGeneration", dict(head_dim=8, rope_parameters=ROPE3),
        dict(PIXELS, hub=[("model.projector.", "mlp_AR."), ("model.visual.vision_model.", "visual.vision_model.")],
             hub_config=dict(architectures=["PaddleOCRVisionModel"])), vision_config=SIGLIP),
    "hunyuanvl": tower("hunyuan_vl", "HunYuanVLForConditionalGeneration", dict(head_dim=8), dict(PIXELS, no_q8_0=True),
        vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, patch_size=4,
                           max_image_size=16, out_hidden_size=32, text_hidden_size=32)),
    "qwen4exp": tower("qwen4_exp", "Qwen4ExpForConditionalGeneration", dict(head_dim=8, num_experts=2, num_experts_per_tok=1), AS_IT_IS, vision_config=QWEN35),
    "glm5v": tower("glm5_next", "Glm5NextForConditionalGeneration", dict(head_dim=8, num_key_value_heads=4),
        dict(AS_IT_IS, preprocessor=dict(min_image_tokens=4, max_image_tokens=64, patch_size=4, merge_size=2)),
        vision_config=dict(GLM4V, swiglu_limit=7.0)),
    "dotsocr": dict(PIXELS, tokenizer="bpe", hand=dots, config=dict(architectures=["DotsOCRForCausalLM"], model_type="dots_ocr",
        **ONE, vision_config=dict(MOON, embed_dim=16, spatial_merge_size=2, rms_norm_eps=1e-5))),
    "youtuvl": dict(tokenizer="bpe", hand=youtu, config=dict(architectures=["YoutuVLForConditionalGeneration"],
        model_type="youtu_vl", **ONE, vision_config=dict(MOON, hidden_act="gelu_pytorch_tanh", window_size=32,
                                                         fullatt_block_indexes=[0, 2], spatial_merge_size=2))),
    "cogvlm": dict(tokenizer="bpe", hand=cogvlm, config=dict(architectures=["CogVLMForCausalLM"], **ONE, vision_config=dict(
        MOON, num_heads=2, image_size=16, layer_norm_eps=1e-5))),
    "meralion": dict(tokenizer="bpe", preprocessor=None, hand=meralion, config=dict(
        architectures=["MERaLiON2ForConditionalGeneration"], model_type="meralion2", speech_mlp_scale_factor=3,
        text_config=dict(ONE, model_type="gemma2"), speech_config=dict(WHISPER, model_type="whisper"))),
    "glmasr": dict(tokenizer="bpe", preprocessor=None, hand=glmasr, config=dict(architectures=["GlmasrModel"],
        model_type="Glmasr", merge_factor=4, lm_config=dict(ONE, model_type="llama"), text_config=dict(vocab_size=384),
        whisper_config={key: value for key, value in WHISPER.items() if key in (
            "d_model", "encoder_layers", "encoder_ffn_dim", "encoder_attention_heads", "num_mel_bins")})),
    "ling3vl": dict(tokenizer="bpe", hand=ling3vl, config=dict(architectures=["BailingMoeV3VLForConditionalGeneration"],
        model_type="bailing_moe_v3_vl", text_config=dict(ONE, rms_norm_eps=1e-5), vision_config=dict(
            QWEN35, disable_merger_proj=True, spatial_merge_size=2))),
    "kimik25": dict(tokenizer="bpe", preprocessor=dict(media_proc_cfg=dict(in_patch_limit=64, image_mean=[0.25, 0.5, 1.0])),
        hand=moon_vit_3d, config=dict(architectures=["KimiK25ForConditionalGeneration"],
            text_config=dict(ONE, model_type="kimi_k2"), vision_config=dict(
                vt_hidden_size=16, vt_intermediate_size=24, vt_num_hidden_layers=3, vt_num_attention_heads=2,
                num_attention_heads=2, patch_size=4, init_pos_emb_height=4, init_pos_emb_width=4, init_pos_emb_time=2,
                merge_kernel_size=[2, 2], projector_ln_eps=1e-6))),
}
