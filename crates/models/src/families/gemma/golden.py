"""Golden recipes of Gemma, by Google: text, and images and audio from Gemma 3 on."""

from unittest import mock

from headers import RMS, Header, heads
from recipes import dense, ends
from tiny_models import AS_IT_IS, MEAN, OLD, POOLING, TEXT, WIDE_TEXT, layers, sizes, tiny, wrapper
from tiny_parts import mlp, tensors, weights
from tiny_towers import SIGLIP, tower, with_pillow


def gemma3_images(config: dict) -> dict:
    text = config["text_config"]
    v, h, f, q, k = sizes(text)
    layer = {"self_attn.q_proj.weight": [q, h], "self_attn.k_proj.weight": [k, h], "self_attn.v_proj.weight": [k, h],
             "self_attn.o_proj.weight": [h, q], "self_attn.q_norm.weight": [text["head_dim"]],
                 "self_attn.k_norm.weight": [text["head_dim"]],
             "mlp.gate_proj.weight": [f, h], "mlp.up_proj.weight": [f, h], "mlp.down_proj.weight": [h, f]} | {
        f"{x}_layernorm.weight": [h] for x in ("input", "post_attention", "pre_feedforward", "post_feedforward")}
    return {
        "language_model.model.embed_tokens.weight": [v, h], "language_model.model.norm.weight": [h],
        **layers(text, {"language_model.model.layers.{}." + name: shape for name, shape in layer.items()}),
        "multi_modal_projector.mm_soft_emb_norm.weight": [8],
        "multi_modal_projector.mm_input_projection_weight": [8, h],
        "vision_tower.vision_model.embeddings.position_embedding.weight": [4, 8],
        "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight": [8, 8]}


GEMMA4 = dict(head_dim=8, num_hidden_layers=6, sliding_window=16, hidden_size_per_layer_input=4,
    vocab_size_per_layer_input=384, num_kv_shared_layers=2, tie_word_embeddings=True, layer_types=["sliding_attention",
    "full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"])
GEMMA4_MOE = dict(hidden_size_per_layer_input=0, num_kv_shared_layers=0, enable_moe_block=True, num_experts=4,
    top_k_experts=2, moe_intermediate_size=24, attention_k_eq_v=True, global_head_dim=16, num_global_key_value_heads=1)
GEMMA4_UNIFIED = {key: value for key, value in GEMMA4.items() if "per_layer" not in key} | dict(
    num_kv_shared_layers=0, global_head_dim=16, attention_k_eq_v=True, num_global_key_value_heads=1)
GEMMA3N = dict(head_dim=8, num_hidden_layers=11, num_kv_shared_layers=3, sliding_window=16,
    hidden_size_per_layer_input=4, vocab_size_per_layer_input=384, laurel_rank=4, activation_sparsity_pattern=None)


def with_fewer_tokens(tensors: dict, config) -> dict:
    """Embeddings without rows for the last tokens, which stand for images and sounds."""
    return {name: tensor[:-12].clone() if "embed_tokens" in name else tensor for name, tensor in tensors.items()}


DENSE_MODULES = [*POOLING["modules.json"], *[dict(idx=i, name=str(i), path=f"{i}_Dense",
    type="sentence_transformers.models.Dense") for i in (2, 3)]]


def gemma4_assistant(config: dict) -> dict:
    width = lambda bid: 64 if config["text_config"]["layer_types"][bid] == "full_attention" else 32
    norms = {f"{name}.weight": [32] for name in ("input_layernorm", "post_attention_layernorm",
        "pre_feedforward_layernorm", "post_feedforward_layernorm")}
    each = lambda bid: norms | mlp() | {"layer_scalar": [1]} | weights(self_attn__q_proj=[width(bid), 32],
        self_attn__q_norm=[width(bid) // 4], self_attn__o_proj=[32, width(bid)])
    return tensors(4, weights(model__embed_tokens=[384, 32], model__norm=[32], pre_projection=[32, 96],
        post_projection=[48, 32], masked_embedding__centroids=[8, 32]), each)


ASSISTANT = dict(backbone_hidden_size=48, use_ordered_embeddings=False, num_centroids=8, centroid_intermediate_top_k=4,
    tie_word_embeddings=True, torch_dtype="bfloat16", text_config=dict(TEXT, head_dim=8, global_head_dim=16,
    num_hidden_layers=4, num_kv_shared_layers=4, sliding_window=16, hidden_size_per_layer_input=0,
    vocab_size_per_layer_input=0, tie_word_embeddings=True,
    layer_types=["sliding_attention"] * 3 + ["full_attention"]))

CHECKPOINTS = {
    "gemma": tiny(model="gemma", config=dict(head_dim=8)),
    "gemma-old": tiny(model="gemma", config=dict(head_dim=8, num_key_value_heads=1), drop=("tie_word_embeddings",),
        old=dict(OLD, rope_theta=10000.0, rope_scaling=None, hidden_act="gelu", hidden_activation=None)),
    "gemma2": tiny(model="gemma2", config=dict(head_dim=8, query_pre_attn_scalar=8, sliding_window=64)),
    "gemma2-old": tiny(model="gemma2", config=dict(head_dim=8), drop=("layer_types",), old=dict(OLD,
        rope_theta=10000.0, cache_implementation="hybrid", sliding_window_size=4096)),
    "gemma3": tiny(model="gemma3_text", whole=True, config=dict(head_dim=8, sliding_window=64)),
    "gemma3-old": tiny(model="gemma3_text", config=dict(head_dim=8), drop=("layer_types",), old=dict(OLD,
        rope_theta=1000000.0, rope_local_base_freq=10000.0, sliding_window_pattern=6,
        rope_scaling=dict(rope_type="linear", factor=8.0))),
    "gemma3-images": tiny(hand=gemma3_images, config=dict(architectures=["Gemma3ForConditionalGeneration"],
        model_type="gemma3", torch_dtype="bfloat16", image_token_index=380, eos_token_id=[1, 2],
        vision_config=dict(hidden_size=8, model_type="siglip_vision_model"), text_config=dict(hidden_size=16,
        intermediate_size=24, model_type="gemma3_text", num_hidden_layers=2, head_dim=8, num_attention_heads=4,
        num_key_value_heads=2, rope_scaling=dict(factor=8.0, rope_type="linear"), sliding_window=1024,
        vocab_size=384))),
    "gemma-embedding": dict(model="gemma3_text", **{"class": "Gemma3TextModel"}, bare=True, config=dict(TEXT,
        head_dim=8, num_hidden_layers=6, sliding_window=16, use_bidirectional_attention=True,
        layer_types=["sliding_attention"] * 5 + ["full_attention"]), files=POOLING),
    "gemma4": dict(model="gemma4_text", **{"class": "Gemma4ForCausalLM"}, bare=True, tokenizer="llama_bpe",
        config=dict(TEXT, **GEMMA4, global_head_dim=16, use_double_wide_mlp=True), **AS_IT_IS),
    "gemma4-moe": dict(model="gemma4_text", **{"class": "Gemma4ForCausalLM"}, bare=True, tokenizer="llama_bpe",
        config=dict(TEXT, **dict(GEMMA4, **GEMMA4_MOE)), **AS_IT_IS),
    "gemma4-unified": wrapper("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", GEMMA4_UNIFIED,
        vision_config=dict(patch_size=4, pooling_kernel_size=3, mm_embed_dim=16, mm_posemb_size=8,
        output_proj_dims=32), audio_config=dict(audio_embed_dim=24), more=dict(AS_IT_IS, tokenizer="llama_bpe",
        generation=dict(suppress_tokens=[7, 9]), given=dict(moe_intermediate_size=None))),
    "gemma3n": dict(model="gemma3n_text", **{"class": "Gemma3nForCausalLM"}, bare=True, extra=with_fewer_tokens,
        config=dict(TEXT, **GEMMA3N)),
    "gemma3n-old": dict(model="gemma3n_text", **{"class": "Gemma3nForCausalLM"}, bare=True, config=dict(TEXT,
        **dict(GEMMA3N, num_hidden_layers=5, num_kv_shared_layers=2,
        activation_sparsity_pattern=[0.95, 0.5, 0.9, 0.25, 0.975],
        layer_types=["sliding_attention", "full_attention"] * 2 + ["sliding_attention"], intermediate_size=[48] * 5)),
        drop=("layer_types",), old=dict(OLD, rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=None)),
    "gemma4-assistant": dict(hand=gemma4_assistant, tokenizer="llama_bpe", config=dict(ASSISTANT,
        architectures=["Gemma4AssistantForCausalLM"], model_type="gemma4_assistant",
        text_config=dict(ASSISTANT["text_config"], model_type="gemma4_text"))),
    "gemma4-unified-assistant": dict(hand=gemma4_assistant, tokenizer="llama_bpe", config=dict(ASSISTANT,
        architectures=["Gemma4UnifiedAssistantForCausalLM"], model_type="gemma4_unified_assistant",
        text_config=dict(ASSISTANT["text_config"], model_type="gemma4_unified_text", moe_intermediate_size=None))),
}

CHECKPOINTS |= {
    "gemma-embedding-dense": dict(CHECKPOINTS["gemma-embedding"], dense={"2_Dense": [48, 32], "3_Dense": [32, 48]},
        options=dict(sentence_transformers_dense_modules=True), files=dict(POOLING, **{"modules.json": DENSE_MODULES})),
    "gemma-embedding-old": CHECKPOINTS["gemma-embedding"] | dict(old=dict(OLD, rope_theta=1000000.0,
        rope_local_base_freq=10000.0, rope_scaling=None, _sliding_window_pattern=6)),
    "gemma4-old": CHECKPOINTS["gemma4"] | dict(drop=("per_layer_config",), more=dict(global_head_dim=16,
        num_global_key_value_heads=None)),
    "gemma4-moe-old": CHECKPOINTS["gemma4-moe"] | dict(drop=("per_layer_config",), more=dict(global_head_dim=16,
        num_global_key_value_heads=1)),
}

def as_gemma(tensors: dict, _) -> dict:
    """The names of Gemma 1, whose class of the reference reads them."""
    return {name.replace("pre_feedforward", "post_attention"): tensor for name, tensor in tensors.items()}


def vocab_of_gemma2(_) -> list:
    """Without the tokens of Gemma 1 that mark code."""
    from conversion.gemma import Gemma2Model, GemmaModel
    return [mock.patch.object(GemmaModel, "set_vocab", Gemma2Model.set_vocab)]


CHECKPOINTS["vaultgemma"] = tiny(model="vaultgemma", config=dict(head_dim=8, query_pre_attn_scalar=8, sliding_window=16,
    attn_logit_softcapping=None, final_logit_softcapping=None, layer_types=["full_attention"] * 2), given_as=as_gemma,
    patches=vocab_of_gemma2, reference=dict(set=dict(architectures=["GemmaForCausalLM"], model_type="gemma")))
CHECKPOINTS["gemma-embedding2"] = wrapper("embedding_gemma2", "EmbeddingGemma2Model", dict(num_hidden_layers=6, head_dim=8,
    global_head_dim=16, num_global_key_value_heads=1, sliding_window=3, hidden_size_per_layer_input=4, embedding_dim=20),
    vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=16), audio_config=None,
    more=dict(AS_IT_IS, tokenizer="llama_bpe", files=MEAN, ahead=True))

GEMMA4_SEEING = dict(head_dim=8, num_hidden_layers=2, sliding_window=16,
    layer_types=["sliding_attention", "full_attention"], vocab_size_per_layer_input=384, hidden_size_per_layer_input=0)
GEMMA4_VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
    num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=16)

def with_norm_of_sound(_) -> list:
    """Adds a name to the reference's table, which has only that of Gemma 4."""
    from gguf import MODEL_TENSOR
    from gguf.tensor_mapping import TensorNameMap
    names = TensorNameMap.block_mappings_cfg[MODEL_TENSOR.A_ENC_CONV1D_NORM]
    more = "model.audio_tower.subsample_conv_projection.conv_{bid}.norm"
    return [mock.patch.dict(TensorNameMap.block_mappings_cfg, {MODEL_TENSOR.A_ENC_CONV1D_NORM: (*names, more)})]


def gemma3n_towers(config: dict) -> dict:
    """MobileNet with a block of each kind, and a conformer audio encoder."""
    eye, ear = "model.vision_tower.timm_model.", "model.audio_tower."
    edge = {"conv_exp": [8, 4, 3, 3], "bn1": [8], "conv_pwl": [4, 8, 1, 1], "bn2": [4]}
    inverted = {"dw_start.conv": [4, 1, 5, 5], "dw_start.bn": [4], "pw_exp.conv": [8, 4, 1, 1], "pw_exp.bn": [8],
                "dw_mid.conv": [8, 1, 5, 5], "dw_mid.bn": [8], "pw_proj.conv": [4, 8, 1, 1], "pw_proj.bn": [4]}
    looking = {"norm": [4], "attn.query.proj": [8, 4, 1, 1], "attn.key.down_conv": [4, 1, 3, 3], "attn.key.norm": [4],
               "attn.key.proj": [2, 4, 1, 1], "attn.value.down_conv": [4, 1, 3, 3], "attn.value.norm": [4],
               "attn.value.proj": [2, 4, 1, 1], "attn.output.proj": [4, 8, 1, 1]}
    named = {eye + "conv_stem.conv": [4, 3, 3, 3], eye + "conv_stem.bn": [4], eye + "msfa.ffn.pw_exp.conv": [8, 8, 1, 1],
             eye + "msfa.ffn.pw_exp.bn": [8], eye + "msfa.ffn.pw_proj.conv": [16, 8, 1, 1], eye + "msfa.ffn.pw_proj.bn": [16],
             eye + "msfa.norm": [16]}
    for place, block in {"0.0": edge, "1.0": inverted, "2.11": looking}.items():
        named |= {f"{eye}blocks.{place}.{name}": shape for name, shape in block.items()}
    for part in ("vision", "audio"):
        named |= {f"model.embed_{part}.{name}": shape for name, shape in {"embedding": [8, 16], "hard_embedding_norm": [16],
            "soft_embedding_norm": [16], "embedding_projection": [32, 16]}.items()}
    named |= {f"{ear}subsample_conv_projection.{name}": shape for name, shape in {"conv_0.conv": [8, 1, 3, 3],
        "conv_0.norm": [8], "conv_1.conv": [4, 8, 3, 3], "conv_1.norm": [4], "input_proj_linear": [16, 8]}.items()}
    layer = {"norm": [16], "attention.pre_attn_norm": [16], "attention.post": [16, 16], "attention.post_norm": [16],
        "attention.attn.relative_position_embedding.pos_proj": [16, 16], "lconv1d.pre_layer_norm": [16],
        "lconv1d.linear_start": [32, 16], "lconv1d.depthwise_conv1d": [16, 1, 3], "lconv1d.conv_norm": [16],
        "lconv1d.linear_end": [16, 16], **{f"attention.attn.{x}_proj": [16, 16] for x in "qkv"}}
    for end in ("start", "end"):
        layer |= {f"ffw_layer_{end}.pre_layer_norm": [16], f"ffw_layer_{end}.ffw_layer_1": [64, 16],
                  f"ffw_layer_{end}.ffw_layer_2": [16, 64], f"ffw_layer_{end}.post_layer_norm": [16]}
    named |= {f"{ear}conformer.{i}.{name}": shape for i in range(2) for name, shape in layer.items()}
    bare = {f"{ear}conformer.{i}.attention.attn.per_dim_scale": [8] for i in range(2)}
    bare |= {f"{eye}blocks.{place}.layer_scale.gamma": [4] for place in ("1.0", "2.11")}
    return {f"{name}.weight": shape for name, shape in named.items()} | bare | {eye + "conv_stem.conv.bias": [4],
        "model.language_model.norm.weight": [32]}


PROJECTORS = {
    "gemma3n": dict(hand=gemma3n_towers, patches=with_norm_of_sound, tokenizer="bpe", vocab_size=384, no_q8_0=True,
        preprocessor=dict(image_mean=None,
        image_std=None, size=dict(height=768, width=768)), config=dict(architectures=["Gemma3nForConditionalGeneration"],
        model_type="gemma3n", text_config=dict(TEXT, model_type="gemma3n_text", vocab_size=384, num_hidden_layers=2,
        laurel_rank=8, hidden_size_per_layer_input=8, intermediate_size=[48, 48], activation_sparsity_pattern=[0.0, 0.0],
        layer_types=["sliding_attention", "full_attention"], num_kv_shared_layers=0),
        vision_config=dict(model_type="gemma3n_vision", hidden_size=16, vocab_size=8, architecture="mobilenetv5_300m_enc"),
        audio_config=dict(model_type="gemma3n_audio", hidden_size=16, vocab_size=8, input_feat_size=8,
        conf_num_hidden_layers=2, conf_num_attention_heads=2, conf_conv_kernel_size=3, sscp_conv_channel_size=[8, 4]))),
    "gemma3": tower("gemma3", "Gemma3ForConditionalGeneration", dict(head_dim=8, sliding_window=16),
        dict(hub=[("model.multi_modal", "multi_modal"), ("model.vision_tower.vision_model.", "vision_tower."),
        ("model.vision_tower.", "vision_tower."), ("vision_tower.", "vision_tower.vision_model.")],
        preprocessor=dict(image_seq_length=16)), vision_config=SIGLIP, mm_tokens_per_image=16),
    "gemma4": tower("gemma4", "Gemma4ForConditionalGeneration", GEMMA4_SEEING, AS_IT_IS, vision_config=GEMMA4_VISION,
        audio_config=None),
    "gemma4-clipped": tower("gemma4", "Gemma4ForConditionalGeneration", GEMMA4_SEEING, AS_IT_IS,
        vision_config=dict(GEMMA4_VISION, use_clipped_linears=True, standardize=True), audio_config=None),
    "gemma4-audio": tower("gemma4", "Gemma4ForConditionalGeneration", GEMMA4_SEEING, dict(AS_IT_IS, no_q8_0=True),
        vision_config=GEMMA4_VISION, audio_config=dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        subsampling_conv_channels=[128, 4], output_proj_dims=24)),
    "embedding-gemma2": tower("embedding_gemma2", "EmbeddingGemma2Model", dict(head_dim=8, hidden_size_per_layer_input=4,
        embedding_dim=20, layer_types=["full_attention"]), dict(AS_IT_IS, no_q8_0=True, ahead=True),
        vision_config=GEMMA4_VISION, audio_config=dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        subsampling_conv_channels=[128, 4], output_proj_dims=24)),
    "gemma4uv": tower("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", dict(head_dim=8, sliding_window=16,
        layer_types=["full_attention"]), AS_IT_IS, audio_config=dict(audio_embed_dim=24),
        vision_config=dict(patch_size=4, pooling_kernel_size=2, mm_embed_dim=16, mm_posemb_size=8,
        output_proj_dims=16)),
}


def gemma3_look(model, image, processor):
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil as Processor
    made = Processor(size=dict(height=32, width=32), **processor)(image, return_tensors="pt")
    pixels = dict(pixel_values=made["pixel_values"])
    rows = model.model.get_image_features(**pixels, return_dict=True).pooler_output[0]
    return rows, [], pixels, [model.config.image_token_id] * len(rows)


def gemma4_look(model, image, processor):
    from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil as Processor
    vision = model.config.vision_config
    made = Processor(max_soft_tokens=70, patch_size=vision.patch_size, pooling_kernel_size=vision.pooling_kernel_size,
                     do_normalize=False)(image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"], image_position_ids=made["image_position_ids"])
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    return rows, [], inputs, [model.config.image_token_id] * len(rows)


def gemma4_unified_look(model, image, processor):
    from transformers.models.gemma4_unified.image_processing_gemma4_unified import Gemma4UnifiedImageProcessor
    class Processor(with_pillow(Gemma4UnifiedImageProcessor)):
        def aspect_ratio_preserving_resize(self, image, resample, **sizes):
            from transformers.image_utils import SizeDict
            from transformers.models.gemma4_unified.image_processing_gemma4_unified import get_aspect_ratio_preserving_size
            height, width = get_aspect_ratio_preserving_size(*image.shape[-2:], **sizes)
            return self.resize(image[None], SizeDict(height=height, width=width), 3)[0]

    made = Processor(max_soft_tokens=70, patch_size=4, pooling_kernel_size=2,
        do_normalize=False)(image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"], image_position_ids=made["image_position_ids"])
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    # The masks of `generate`; with those of `forward`, pictures attend in both directions in all layers.
    import torch
    from vision import AFTER, BEFORE
    types = torch.tensor([[0] * BEFORE + [1] * len(rows) + [0] * AFTER])
    masks = model.create_masks_for_generate(model.config, torch.zeros(*types.shape, rows.shape[1]), None, None, None, types)
    return rows, [], inputs | dict(attention_mask=masks), [model.config.image_token_id] * len(rows)


GEMMA4_LOOK = dict(look=gemma4_look, types=lambda types: dict(mm_token_type_ids=types), max_tokens=70,
    processor=dict(image_mean=[0.0, 0.0, 0.0], image_std=[1.0, 1.0, 1.0]))
GEMMA4_LOOKING = dict(GEMMA4_SEEING, use_bidirectional_attention="vision")
VISION = {
    "gemma3": dict(tower("gemma3", "Gemma3ForConditionalGeneration", dict(head_dim=8, num_hidden_layers=6,
        sliding_window=12, query_pre_attn_scalar=8), vision_config=SIGLIP, mm_tokens_per_image=16), look=gemma3_look,
        types=lambda types: dict(token_type_ids=types), preprocessor=dict(image_seq_length=16)),
    "gemma4": dict(tower("gemma4", "Gemma4ForConditionalGeneration", GEMMA4_LOOKING, AS_IT_IS,
        vision_config=dict(GEMMA4_VISION, position_embedding_size=64), audio_config=None), **GEMMA4_LOOK),
    "gemma4-clipped": dict(tower("gemma4", "Gemma4ForConditionalGeneration", dict(GEMMA4_LOOKING,
        hidden_size_per_layer_input=4), AS_IT_IS, audio_config=None, vision_config=dict(GEMMA4_VISION,
        position_embedding_size=64, use_clipped_linears=True, standardize=True)), **GEMMA4_LOOK),
}
VISION |= {
    "gemma4-unified": dict(tower("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", dict(GEMMA4_UNIFIED,
        num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"],
        use_bidirectional_attention="vision"), dict(AS_IT_IS, tokenizer="llama_bpe"),
        audio_config=dict(audio_embed_dim=24),
        vision_config=dict(patch_size=4, pooling_kernel_size=2, mm_embed_dim=16, mm_posemb_size=16,
        output_proj_dims=16)), **dict(GEMMA4_LOOK, look=gemma4_unified_look)),
}


def gemma4_hear(extractor, wave):
    made = extractor([wave], sampling_rate=16000, return_tensors="pt")
    # Two convolutions with stride 2.
    n = int(made["input_features_mask"][0, ::4].sum())
    return dict(input_features=made["input_features"], input_features_mask=made["input_features_mask"]), [n]


def gemma4_bands(config):
    import transformers
    return transformers.Gemma4AudioFeatureExtractor()


def gemma4_frames(config):
    from transformers.models.gemma4_unified.feature_extraction_gemma4_unified import (
        Gemma4UnifiedAudioFeatureExtractor as Extractor)
    return Extractor(feature_size=240, audio_samples_per_token=240)


def unified_hear(extractor, wave):
    made = extractor(wave, sampling_rate=16000, return_tensors="pt")
    return dict(input_features=made["input_features"], input_features_mask=made["input_features_mask"]), [
        int(made["input_features_mask"].sum())]


HEARING = dict(projector="embed_audio", types=lambda types: dict(mm_token_type_ids=3 * types))
AUDIO = {
    "gemma4": dict(tower("gemma4", "Gemma4ForConditionalGeneration", dict(GEMMA4_SEEING, hidden_size_per_layer_input=4),
        AS_IT_IS, vision_config=dict(GEMMA4_VISION, position_embedding_size=64), audio_config=dict(hidden_size=16,
        num_hidden_layers=3, num_attention_heads=2, subsampling_conv_channels=[128, 4], output_proj_dims=24)), **HEARING,
        hear=gemma4_hear, extractor=gemma4_bands, n_samples=21600),
    "gemma4-unified": dict(tower("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", dict(head_dim=8,
        sliding_window=16, num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"]), AS_IT_IS,
        audio_config=dict(audio_embed_dim=240), vision_config=dict(patch_size=4, pooling_kernel_size=2, mm_embed_dim=16,
        mm_posemb_size=8, output_proj_dims=16)), **HEARING, hear=unified_hear, extractor=gemma4_frames),
}
WIDE = {
    "gemma2": dict(head_dim=64),
    "gemma3": dict(head_dim=64),
    "gemma3n-old": dict(WIDE_TEXT, head_dim=64, laurel_rank=64, intermediate_size=[512] * 5),
}
SCALED = dict(config=dict(query_pre_attn_scalar=8))


def with_all_tokens(config, tensors):
    """Embeddings with zeros for the last tokens, which the checkpoint leaves out."""
    import torch.nn.functional as F
    return config, {name: F.pad(tensor, (0, 0, 0, config["vocab_size"] - len(tensor))) if "embed_tokens" in name else tensor
                    for name, tensor in tensors.items()}


def without_projection(model):
    """Rows before the output matrix, which follows the pooling (`output`)."""
    import torch
    model.language_model.embedding_projection = torch.nn.Identity()


LOGITS = {
    "gemma-embedding2": dict(prepare=without_projection, output="language_model.embedding_projection.weight"),
    "gemma2-old": SCALED,
    "gemma-embedding": SCALED,
    "gemma-embedding-dense": SCALED,
    "gemma3": SCALED,
    "gemma3-images": dict(SCALED, spelled=lambda config, tensors: (
        config["text_config"] | dict(architectures=["Gemma3ForCausalLM"]),
        {name.replace("language_model.", ""): tensor for name, tensor in tensors.items() if "language_model." in name})),
    "gemma3-old": SCALED,
    "gemma3n": dict(spelled=with_all_tokens),
}
RECORDS = {"gemma2": "GemmaTokenizer", "gemma3": "GemmaTokenizer"}


def gemma3_header():
    """Gemma 3 4B: windows in five of six layers."""
    h = Header("gemma3", 2560, 6, 262208, 10240, **RMS, **heads(8, 4, 256),
               **{"attention.sliding_window": 1024, "rope.freq_base": 1e6})
    for i in range(6):
        h.norms(i, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
        h.attention(i, 8, 4, 256, norms=True)
        h.mlp(i)
    return h.ends(output=False)


MEMORY = {"gemma3": gemma3_header}
SNAPSHOTS = {
    "gemma-3-4b-it": ("gemma3", dict(n_embd=2560, n_ff=10240, n_vocab=262144, n_layer=34, n_head=8, n_head_kv=4),
        ends(2560, 262144, tied=True) + dense(2560, 10240, 2048, 1024, list(range(34)))),
}
