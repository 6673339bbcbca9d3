"""Tiny checkpoints of models of several kinds, for arch.py: a text part with eyes or ears around it. Keys are those of
families.py; `class` is the class of transformers that is built, with a tower that is as small as its class allows."""

from families import POOLING
from families_moe import GLM_SPECIAL

TEXT = dict(vocab_size=384, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
ROPE3 = dict(rope_type="default", rope_theta=1000000.0, mrope_section=[2, 1, 1])
QWEN2_TOWER = dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, patch_size=4)
QWEN25_TOWER = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=32,
                    fullatt_block_indexes=[0])
QWEN3_TOWER = dict(depth=3, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=32,
                   num_position_embeddings=16, deepstack_visual_indexes=[0, 2])
PIXTRAL = dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
               head_dim=8, image_size=16, patch_size=4)
SIGLIP = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=16,
              patch_size=4)
WHISPER = dict(d_model=16, hidden_size=16, intermediate_size=32, encoder_ffn_dim=32, num_hidden_layers=1,
               encoder_layers=1, num_attention_heads=2, encoder_attention_heads=2, num_mel_bins=8,
               max_source_positions=16)
OLD = dict(torch_dtype="bfloat16", transformers_version="4.43.0")
# For some model types transformers rebuilds a tokenizer as Qwen's class, with tokens of its own; not with this key.
AS_IT_IS = dict(tokenizer_config=dict(auto_map=dict(AutoTokenizer=["tokenization.Own", None])))


def wrapper(model: str, name: str, text: dict, **parts) -> dict:
    more = parts.pop("more", {})
    return dict({"model": model, "class": name, "bare": True, "tokenizer": "bpe",
                 "config": dict(text_config=dict(TEXT, **text), **parts)}, **more)


QWEN35 = dict(head_dim=8, num_hidden_layers=4, linear_key_head_dim=4, linear_value_head_dim=8, linear_num_key_heads=2,
              linear_num_value_heads=6, linear_conv_kernel_dim=4)
ROPE35 = dict(rope_type="default", rope_theta=10000000.0, partial_rotary_factor=0.5, mrope_section=[1, 1, 0],
              mrope_interleaved=True)
QWEN35_MOE = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40)
QWEN35_TOWER = {key: value for key, value in QWEN3_TOWER.items() if key != "deepstack_visual_indexes"}

GEMMA4 = dict(head_dim=8, num_hidden_layers=6, sliding_window=16, hidden_size_per_layer_input=4,
              vocab_size_per_layer_input=384, num_kv_shared_layers=2, tie_word_embeddings=True,
              layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
                           "sliding_attention", "full_attention"])
GEMMA4_MOE = dict(hidden_size_per_layer_input=0, num_kv_shared_layers=0, enable_moe_block=True, num_experts=4,
                  top_k_experts=2, moe_intermediate_size=24, attention_k_eq_v=True, global_head_dim=16,
                  num_global_key_value_heads=1)
GEMMA4_UNIFIED = {key: value for key, value in GEMMA4.items() if "per_layer" not in key} | dict(
    num_kv_shared_layers=0, global_head_dim=16, attention_k_eq_v=True, num_global_key_value_heads=1)

LATENT = dict(kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, n_routed_experts=3,
              num_experts_per_tok=2, moe_intermediate_size=24, num_key_value_heads=4, num_hidden_layers=3)

WRAPPERS = {
    "glm4-moe-lite": dict(model="glm4_moe_lite", tokenizer="bpe", special=GLM_SPECIAL, config=dict(TEXT, **LATENT)),
    "glm4-moe-lite-old": dict(model="glm4_moe_lite", tokenizer="bpe", special=GLM_SPECIAL, config=dict(TEXT, **LATENT),
        drop=("mlp_layer_types",), old=dict(OLD, first_k_dense_replace=1, rope_theta=1000000, rope_scaling=None,
                                            num_nextn_predict_layers=1, partial_rotary_factor=1.0)),
    "lfm2moe": dict(model="lfm2_moe", tokenizer="bpe", config=dict(TEXT, num_hidden_layers=4, num_dense_layers=1,
        num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
        layer_types=["conv", "full_attention", "conv", "full_attention"])),
    "gemma-embedding": dict(model="gemma3_text", **{"class": "Gemma3TextModel"}, bare=True, config=dict(TEXT,
        head_dim=8, num_hidden_layers=6, sliding_window=16, use_bidirectional_attention=True,
        layer_types=["sliding_attention"] * 5 + ["full_attention"]), files=POOLING),
    "gemma4": dict(model="gemma4_text", **{"class": "Gemma4ForCausalLM"}, bare=True, tokenizer="llama_bpe",
        config=dict(TEXT, **GEMMA4, global_head_dim=16, use_double_wide_mlp=True), **AS_IT_IS),
    "gemma4-moe": dict(model="gemma4_text", **{"class": "Gemma4ForCausalLM"}, bare=True, tokenizer="llama_bpe",
        config=dict(TEXT, **dict(GEMMA4, **GEMMA4_MOE)), **AS_IT_IS),
    "gemma4-unified": wrapper("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", GEMMA4_UNIFIED,
        vision_config=dict(patch_size=4, pooling_kernel_size=3, mm_embed_dim=16, mm_posemb_size=8, output_proj_dims=32),
        audio_config=dict(audio_embed_dim=24), more=dict(AS_IT_IS, tokenizer="llama_bpe",
                                                         generation=dict(suppress_tokens=[7, 9]), given=dict(moe_intermediate_size=None))),
    "qwen3.5": wrapper("qwen3_5", "Qwen3_5ForConditionalGeneration", dict(QWEN35, rope_parameters=ROPE35),
        vision_config=QWEN35_TOWER, more=AS_IT_IS),
    # One value head to a key head, no sections; what a fine-tune of the text part is saved as.
    "qwen3.5-text": dict(model="qwen3_5_text", **{"class": "Qwen3_5ForCausalLM"}, tokenizer="bpe", config=dict(
        QWEN35, linear_num_value_heads=2)),
    "qwen3.5moe": wrapper("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration",
        dict(QWEN35, **QWEN35_MOE, rope_parameters=ROPE35), vision_config=QWEN35_TOWER, more=AS_IT_IS),
    "qwen2vl": wrapper("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3),
        vision_config=QWEN2_TOWER),
    # The Hub's spelling: keys of the text part beside the others, names without `language_model.`.
    "qwen2vl-old": wrapper("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3),
        vision_config=QWEN2_TOWER, more=dict(drop=("text_config",), old=dict(
            OLD, **TEXT, hidden_act="silu", rms_norm_eps=1e-06, sliding_window=256, use_sliding_window=False,
            max_window_layers=2, rope_theta=1000000.0, tie_word_embeddings=False,
            rope_scaling=dict(type="mrope", mrope_section=[2, 1, 1])),
            tensor_names=[("model.language_model.", "model."), ("model.visual.", "visual.")])),
    "qwen2.5vl": wrapper("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", dict(rope_parameters=ROPE3),
        vision_config=QWEN25_TOWER),
    "qwen3vl": wrapper("qwen3_vl", "Qwen3VLForConditionalGeneration",
        dict(head_dim=8, rope_parameters=dict(ROPE3, mrope_interleaved=True)), vision_config=QWEN3_TOWER),
    "qwen3vlmoe": wrapper("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration",
        dict(head_dim=8, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
             rope_parameters=dict(ROPE3, mrope_interleaved=True)), vision_config=QWEN3_TOWER,
        more=dict(given_as="turned_experts")),
    # The Hub's experts are (experts, in, out), which the reference takes all for; transformers 5 saves (experts, out, in).
    "qwen3vlmoe-old": wrapper("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration",
        dict(head_dim=8, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
             rope_parameters=dict(ROPE3, mrope_interleaved=True)), vision_config=QWEN3_TOWER,
        more=dict(extra="turned_experts")),
    "mistral3": wrapper("mistral3", "Mistral3ForConditionalGeneration",
        dict(model_type="mistral", head_dim=8, sliding_window=None), vision_config=PIXTRAL),
    "ministral3": wrapper("mistral3", "Mistral3ForConditionalGeneration",
        dict(model_type="ministral3", head_dim=8, rope_parameters=dict(
            type="yarn", rope_type="yarn", rope_theta=1000000.0, factor=16.0, original_max_position_embeddings=64,
            max_position_embeddings=512, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
            llama_4_scaling_beta=0.1)), vision_config=PIXTRAL),
    "ministral3-text": dict(model="ministral3", tokenizer="bpe", config=dict(head_dim=16, rope_parameters=dict(
        type="yarn", rope_type="yarn", rope_theta=1000000.0, factor=8.0, original_max_position_embeddings=64,
        max_position_embeddings=512, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=0.5,
        llama_4_scaling_beta=0.25))),
    "pixtral": wrapper("llava", "LlavaForConditionalGeneration", dict(model_type="mistral", head_dim=8),
        vision_config=PIXTRAL, vision_feature_layer=-1),
    "smolvlm": wrapper("smolvlm", "SmolVLMForConditionalGeneration",
        dict(model_type="llama", architectures=["VLlama3ForCausalLM"]), vision_config=SIGLIP, scale_factor=2),
    "voxtral": wrapper("voxtral", "VoxtralForConditionalGeneration", dict(model_type="llama", head_dim=8),
        audio_config=WHISPER),
    "qwen2audio": wrapper("qwen2_audio", "Qwen2AudioForConditionalGeneration", dict(model_type="qwen2"),
        audio_config=WHISPER),
}
