"""Tiny checkpoints of the largest models, of sparse attention and of drafts, for arch.py. Keys of a family are those of
families.py and families_encoders.py; a shape may also be the text `VALUES SHAPE DTYPE` of checkpoint.py. And:

  adds_bos    transformers 5 does not tell the reference what tokenizer_config.json says of a bos, on which it insists
  raw_config  the reference is to read config.json as it stands: transformers' class of that name would take keys out of
              it that the reference wants
  vocab_size  of the tokenizer, where the config has it in an unusual place
  prediction  `only` or `without`: what the reference is asked of layers of multi-token prediction
  target      the golden whose folder is the target's of a draft (`--target-model-dir`)
"""

from families import LLAMA3
from families_moe import GLM_SPECIAL, MOE
from families_wrappers import AS_IT_IS, OLD, PIXTRAL, QWEN3_TOWER, QWEN35, QWEN35_MOE, ROPE35, TEXT, wrapper

LATENT = dict(kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, n_routed_experts=3,
              num_experts_per_tok=2, moe_intermediate_size=24, num_key_value_heads=4, num_hidden_layers=3)
INDEXER = dict(index_n_heads=2, index_head_dim=16, index_topk=8)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)
# The id that a byte-level tokenizer gives its first token beside the usual ones.
TURN_END = dict(special=["<|im_end|>"], tokenizer_config=dict(AS_IT_IS["tokenizer_config"], added_tokens_decoder={
    "3": dict(content="<|im_end|>", lstrip=False, normalized=False, rstrip=False, single_word=False, special=True)}))
HAND = dict(TEXT, torch_dtype="bfloat16", rms_norm_eps=1e-6, tie_word_embeddings=False)


def tensors(layers: int, ends: dict, each, start: int = 0) -> dict:
    """Tensors at the ends, and those that `each` says of a layer, under `model.layers.N.`."""
    return ends | {f"model.layers.{bid}.{name}": shape for bid in range(start, start + layers)
        for name, shape in each(bid).items()}


def weights(**shapes) -> dict:
    """Names with `.weight`; a double underscore stands for a point."""
    return {name.replace("__", ".") + ".weight": shape for name, shape in shapes.items()}


ENDS = weights(model__embed_tokens=[384, 32], model__norm=[32], lm_head=[384, 32])
NORMS = weights(input_layernorm=[32], post_attention_layernorm=[32])


def mlp(name: str = "mlp", rows: int = 48, width: int = 32) -> dict:
    return {f"{name}.gate_proj.weight": [rows, width], f"{name}.up_proj.weight": [rows, width],
            f"{name}.down_proj.weight": [width, rows]}


def attention(queries: int = 32, keys: int = 16, norms: int = 0) -> dict:
    return weights(self_attn__q_proj=[queries, 32], self_attn__k_proj=[keys, 32], self_attn__v_proj=[keys, 32],
                   self_attn__o_proj=[32, queries],
                   **(dict(self_attn__q_norm=[norms], self_attn__k_norm=[norms]) if norms else {}))


def latent(heads: int = 4, rank: int = 16, nope: int = 12, rope: int = 8, values: int = 10, queries: int = 24) -> dict:
    return weights(self_attn__q_a_proj=[queries, 32], self_attn__q_a_layernorm=[queries],
        self_attn__q_b_proj=[heads * (nope + rope), queries], self_attn__kv_a_proj_with_mqa=[rank + rope, 32],
        self_attn__kv_a_layernorm=[rank], self_attn__kv_b_proj=[heads * (nope + values), rank],
        self_attn__o_proj=[32, heads * values])


def indexer(heads: int = 2, dim: int = 16, queries: int = 24) -> dict:
    return weights(self_attn__indexer__wq_b=[heads * dim, queries], self_attn__indexer__wk=[dim, 32],
        self_attn__indexer__weights_proj=[heads, 32], self_attn__indexer__k_norm=[dim]) | {
        "self_attn.indexer.k_norm.bias": [dim]}


def experts(n: int = 3, rows: int = 24, shared: int = 24) -> dict:
    return {"mlp.gate.weight": [n, 32], "mlp.gate.e_score_correction_bias": [n], **mlp("mlp.shared_experts", shared),
            **{name: shape for x in range(n) for name, shape in mlp(f"mlp.experts.{x}", rows).items()}}


def prediction() -> dict:
    return weights(eh_proj=[32, 64], enorm=[32], hnorm=[32], shared_head__norm=[32])


def with_nextn(tensors: dict, config) -> dict:
    """A layer after the last, as published checkpoints have for predicting the token after the next."""
    import torch
    last = config.num_hidden_layers
    more = {name.replace(f"layers.{last - 1}.", f"layers.{last}."): tensor.clone()
            for name, tensor in tensors.items() if f"layers.{last - 1}." in name}
    more |= {f"model.layers.{last}.{name}": torch.ones(shape, dtype=torch.bfloat16)
             for name, shape in (prediction() | indexer()).items()}
    return tensors | more


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
# Sound of Qwen 3 ASR.
ENCODER = dict(num_mel_bins=8, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=32, d_model=16, output_dim=32,
               downsample_hidden_size=8)


def qwen3omni(config: dict) -> dict:
    each = lambda bid: NORMS | attention(norms=8) | {"mlp.gate.weight": [3, 32]} | {
        name: shape for x in range(3) for name, shape in mlp(f"mlp.experts.{x}", 24).items()}
    text = tensors(2, ENDS, each)
    return {f"thinker.{name}": shape for name, shape in text.items()} | {
        "thinker.visual.patch_embed.proj.weight": [16, 3, 2, 4, 4], "thinker.audio_tower.conv2d1.weight": [8, 1, 3, 3],
        "talker.model.norm.weight": [32], "code2wav.pre_transformer.norm.weight": [32]}


OMNI = dict(HAND, head_dim=8, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True,
            decoder_sparse_step=1, model_type="qwen3_omni_moe_text",
            rope_scaling=dict(rope_type="default", mrope_section=[2, 1, 1], interleaved=True), rope_theta=1000000)

# The reference wants these beside what transformers writes.
KDA = dict(num_heads=4, head_dim=8, short_conv_kernel_size=4, gate_lower_bound=-5.0)
GLM5 = dict(HAND, **{**LATENT, "qk_rope_head_dim": 0, "num_hidden_layers": 4}, **INDEXER, model_type="glm5_next_text",
    n_shared_experts=1, routed_scaling_factor=2.5, norm_topk_prob=True, scoring_func="sigmoid", n_group=1, topk_group=1,
    first_k_dense_replace=1, head_dim=8, mhc=True, hc_mult=2, hc_eps=1e-6, hc_sinkhorn_iters=5, index_kpool=4,
    index_kpool_always_select_tail=True, mla_use_nope=True, swiglu_limit=10.0, linear_attn_config=KDA,
    layer_types=["linear_attention", "linear_attention", "full_attention", "full_attention"],
    indexer_types=["full", "full", "full", "shared"])


def kda(heads: int = 4, dim: int = 8) -> dict:
    """Kimi's delta attention."""
    inner = heads * dim
    return weights(**{f"self_attn__{x}_proj": [inner, 32] for x in "qkv"},
        **{f"self_attn__{x}_conv1d": [inner, 1, 4] for x in "qkv"}, self_attn__f_a_proj=[dim, 32],
        self_attn__f_b_proj=[inner, dim], self_attn__b_proj=[heads, 32], self_attn__g_a_proj=[dim, 32],
        self_attn__g_b_proj=[inner, dim], self_attn__o_norm=[dim], self_attn__o_proj=[32, inner]) | {
        "self_attn.A_log": f"logarithms 1x1x{heads}x1 F32", "self_attn.dt_bias": f"normal {inner} F32"}


def glm5_next(config: dict) -> dict:
    text = config["text_config"]
    streams = {f"hc_{part}_{name}": f"normal {shape} F32" for part in ("attn", "ffn")
        for name, shape in (("fn", "8x64"), ("base", "8"), ("scale", "3"))}

    def each(bid: int) -> dict:
        predicted = bid >= text["num_hidden_layers"]
        linear = not predicted and text["layer_types"][bid] == "linear_attention"
        names = NORMS | (kda() if linear else latent(rope=0)) | (experts() if bid > 0 else mlp())
        if not linear and (predicted or text["indexer_types"][bid] == "full"):
            names |= indexer() | {"self_attn.indexer.index_kpool_compress_gate": [16, 32],
                                  "self_attn.indexer.index_kpool_compress_ape": [4, 16]}
        return names | (prediction() if predicted else streams)
    n = text["num_hidden_layers"] + text.get("num_nextn_predict_layers", 0)
    return {name.replace("model.", "model.language_model.", 1): shape for name, shape in tensors(n, ENDS, each).items()
        } | {"model.visual.blocks.0.norm1.weight": [16], "model.visual.patch_embed.proj.weight": [16, 3, 2, 4, 4]}


DOTS3 = dict(HAND, **LATENT, **INDEXER, head_dim=20, n_shared_experts=1, scoring_func="sigmoid", topk_method="noaux_tc",
    norm_topk_prob=True, routed_scaling_factor=2.0, n_group=1, topk_group=1, first_k_dense_replace=1, moe_layer_freq=1,
    use_dsa=True, use_sliding_window=True, sliding_window_size=16, swa_num_attention_heads=2, swa_num_key_value_heads=2,
    swa_q_lora_rank=24, swa_kv_lora_rank=12, swa_head_dim=14, swa_qk_nope_head_dim=6, swa_qk_rope_head_dim=8,
    swa_v_head_dim=16, swa_rope_theta=10000.0, rope_theta=80000000.0, k_rope_only_layernorm=True,
    attention_gate_type="headwise", swa_attention_gate_type="headwise", apply_mla_qkv_lora_rescale=True,
    layer_types=["full_attention", "sliding_attention", "full_attention"])


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


HY4 = dict(HAND, **LATENT, **INDEXER, n_shared_experts=1, routed_scaling_factor=2.8, norm_topk_prob=True, n_group=1,
    topk_group=1, head_dim=8, first_k_dense_replace=1, mlp_layer_types=["dense", "sparse", "sparse"], hc_mult=2,
    hc_magnitude=2.0, hc_eps=1e-6, learnable_sink_init=0.0, swiglu_limit=10.0, indexer_types=["full", "full", "shared"],
    rope_theta=10000000.0, num_nextn_predict_layers=1)


def hy_v4(config: dict) -> dict:
    streams = {f"hc_{part}_layer.hc_pre.hc_{name}": f"normal {shape} F32" for part in ("attn", "mlp")
        for name, shape in (("fn", "6x64"), ("base", "6"), ("scale", "3"))}
    stacked = {"mlp.gate.weight": [3, 32], "mlp.gate.e_score_correction_bias": [3], **mlp("mlp.shared_experts", 24),
               "mlp.experts.gate_up_proj": [3, 48, 32], "mlp.experts.down_proj": [3, 32, 24]}
    each = lambda bid: NORMS | latent() | streams | (mlp() if bid == 0 else stacked) | (indexer() if bid < 2 else {}
        ) | weights(self_attn__linear_gate=[40, 32]) | {"self_attn.learnable_sink_param": [4]}
    return tensors(3, ENDS, each) | {f"model.hc_head.hc_head_{name}": f"normal {shape} F32"
        for name, shape in (("fn", "2x64"), ("base", "2"), ("scale", "1"))} | {
        "model.mtp_layers.0.input_layernorm.weight": [32]}


MUSE = dict(head_dim=8, num_hidden_layers=4, sliding_window=16, qk_scale_factor=3.87, output_multiplier=0.25,
            final_logit_softcapping=20.0)
MUSE_TOWER = dict(patch_size=4, pos_emb_height=4, pos_emb_width=4, num_attention_heads=2, num_hidden_layers=2,
                  hidden_size=16, intermediate_size=24)

def eagle(config: dict, layer: str = "midlayer") -> dict:
    names = weights(fc=[32, 96], norm=[32], lm_head=[96, 32], embed_tokens=[384, 32]) | {
        f"{layer}.{name}": shape for name, shape in (weights(hidden_norm=[32], input_layernorm=[32],
            post_attention_layernorm=[32], self_attn__q_proj=[32, 64], self_attn__k_proj=[16, 64],
            self_attn__v_proj=[16, 64], self_attn__o_proj=[32, 32]) | mlp()).items()}
    return names | {"d2t": "steps:2 96 I64", "t2d": "numbers:" + "x".join("1" for _ in range(384)) + " 384 I64"}


EAGLE = dict(HAND, num_hidden_layers=1, draft_vocab_size=96, model_type="llama", pretraining_tp=1)
QWEN3 = dict(HAND, head_dim=8, model_type="qwen3", rope_theta=1000000.0, num_hidden_layers=2)


def dflash(config: dict, more: dict = {}, start: str = "") -> dict:
    names = weights(**{f"{start}norm": [32]}, **{f"{start}hidden_norm": [32]}, **{f"{start}fc": [32, 64]})
    return names | {f"{start}layers.{bid}.{name}": shape for bid in range(2)
        for name, shape in (NORMS | attention(norms=8) | mlp()).items()} | more


def dflash2(config: dict) -> dict:
    conv = {f"layers.{bid}.{part}_conv.{name}": shape for bid in range(2) for part in ("attention", "mlp")
        for name, shape in (("base_kernel", [4, 8]), ("kernel_projection.weight", [32, 32]))}
    return dflash(config, conv | {"embed_tokens.weight": [384, 32], "candidate_selector.predecessor_codebook": [384, 4],
        "candidate_selector.successor_codebook": [384, 4], "candidate_selector.hidden_projection.weight": [4, 32],
        "layers.0.self_attn.attention_sink_bias": [4], "layers.1.self_attn.attention_sink_bias": [4]})


def gemma4_dspark(config: dict) -> dict:
    norms = {f"{name}.weight": [32] for name in ("input_layernorm", "post_attention_layernorm",
        "pre_feedforward_layernorm", "post_feedforward_layernorm")}
    each = norms | mlp() | {"layer_scalar": [1]} | weights(self_attn__q_proj=[64, 32], self_attn__k_proj=[16, 32],
        self_attn__o_proj=[32, 64], self_attn__q_norm=[16], self_attn__k_norm=[16])
    return weights(norm=[32], hidden_norm=[32], fc=[32, 64], embed_tokens=[384, 32], confidence_proj=[1, 36]) | MARKOV | {
        "confidence_proj.bias": [1]} | {f"layers.{bid}.{name}": shape for bid in range(2) for name, shape in each.items()}


MARKOV = weights(markov_head__markov_w1=[384, 4], markov_head__markov_w2=[384, 4])
CONFIDENCE = {"confidence_head.proj.weight": [1, 36], "confidence_head.proj.bias": [1]}
DRAFT = dict(tokenizer="bpe", target="qwen3")

GIANTS = {
    "gemma4-assistant": dict(hand=gemma4_assistant, tokenizer="llama_bpe", config=dict(ASSISTANT,
        architectures=["Gemma4AssistantForCausalLM"], model_type="gemma4_assistant",
        text_config=dict(ASSISTANT["text_config"], model_type="gemma4_text"))),
    "gemma4-unified-assistant": dict(hand=gemma4_assistant, tokenizer="llama_bpe", config=dict(ASSISTANT,
        architectures=["Gemma4UnifiedAssistantForCausalLM"], model_type="gemma4_unified_assistant",
        text_config=dict(ASSISTANT["text_config"], model_type="gemma4_unified_text", moe_intermediate_size=None))),
    "qwen3asr": wrapper("qwen3_asr", "Qwen3ASRForConditionalGeneration", dict(model_type="qwen3", head_dim=8),
        audio_config=ENCODER, more=TURN_END),
    "qwen3omni": dict(hand=qwen3omni, tokenizer="bpe", **TURN_END, config=dict(
        architectures=["Qwen3OmniMoeForConditionalGeneration"], model_type="qwen3_omni_moe",
        thinker_config=dict(text_config=OMNI, vision_config=dict(deepstack_visual_indexes=[0])), enable_audio_output=True),
        vocab_size=384),
    "minicpmv4.6": wrapper("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", dict(QWEN35, model_type="qwen3_5_text",
        rope_parameters=ROPE35), insert_layer_id=1, vision_config=dict(hidden_size=16, intermediate_size=24,
        num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4), more=AS_IT_IS),
    "mistral4": wrapper("mistral3", "Mistral3ForConditionalGeneration", dict(LATENT, model_type="mistral4",
        first_k_dense_replace=1, rope_parameters=dict(YARN, llama_4_scaling_beta=0.1)), vision_config=PIXTRAL),
    "deepseek3.2": dict(model="deepseek_v32", tokenizer="bpe", tokenizer_config=dict(add_bos_token=True), adds_bos=True,
        config=dict(TEXT, **LATENT, **INDEXER, first_k_dense_replace=1, n_group=1, topk_group=1)),
    "deepseek3.2-old": dict(model="deepseek_v32", tokenizer="bpe", tokenizer_config=dict(add_bos_token=True),
        adds_bos=True, config=dict(TEXT, **LATENT, **INDEXER, first_k_dense_replace=1, n_group=1, topk_group=1),
        extra="nextn32", drop=("mlp_layer_types", "layer_types", "head_dim"), old=dict(OLD, rope_theta=10000,
            scoring_func="sigmoid", topk_method="noaux_tc", num_nextn_predict_layers=1,
            rope_scaling=dict(YARN, type="yarn"))),
    "glm-dsa": dict(model="glm_moe_dsa", tokenizer="bpe", special=GLM_SPECIAL, config=dict(TEXT, **LATENT, **INDEXER,
        first_k_dense_replace=1, indexer_types=["full", "full", "shared"])),
    "glm-dsa-old": dict(model="glm_moe_dsa", tokenizer="bpe", special=GLM_SPECIAL, extra="nextn32",
        config=dict(TEXT, **LATENT, **INDEXER, first_k_dense_replace=1), drop=("mlp_layer_types", "layer_types",
            "head_dim", "indexer_types"), old=dict(OLD, rope_theta=1000000, scoring_func="sigmoid",
            num_nextn_predict_layers=1)),
    "glm5-next": dict(hand=glm5_next, tokenizer="bpe", special=GLM_SPECIAL, config=dict(
        architectures=["Glm5NextForConditionalGeneration"], model_type="glm5_next",
        text_config=dict(GLM5, num_nextn_predict_layers=0))),
    "glm5-next-mtp": dict(hand=glm5_next, tokenizer="bpe", special=GLM_SPECIAL, config=dict(
        architectures=["Glm5NextForConditionalGeneration"], model_type="glm5_next",
        text_config=dict(GLM5, num_nextn_predict_layers=1))),
    "dots3": dict(hand=dots3, tokenizer="bpe", special=["<|endofassistant|>"], raw_config=True, config=dict(
        DOTS3, architectures=["Dots3NoteForConditionalGeneration"], model_type="dots3_note", vision_config=dict(adapter_out_dim=32),
        audio_config=dict(adapter_out_dim=32))),
    "dots3-mtp": dict(hand=dots3, tokenizer="bpe", special=["<|endofassistant|>"], raw_config=True,
        config=dict(DOTS3, architectures=["Dots3NoteForCausalLM"], model_type="dots3_note_text",
                    apply_mla_qkv_lora_rescale=False)),
    "hy-v4": dict(hand=hy_v4, tokenizer="bpe", config=dict(HY4, architectures=["HYV4ForCausalLM"], model_type="hy_v4")),
    "muse-glimmer": wrapper("muse_glimmer", "MuseGlimmerForConditionalGeneration", MUSE, vision_config=MUSE_TOWER,
        out_hidden_size=64, projector_hidden_size=24, more=dict(special=["<|eot|>"])),
}
GIANTS |= {
    "eagle3": dict(hand=eagle, tokenizer="bpe", target="llama-llama3", config=dict(EAGLE,
        architectures=["LlamaForCausalLMEagle3"])),
    "eagle3-speculator": dict(hand=lambda config: {name: shape for name, shape in eagle(config, "layers.0").items()
        if name != "embed_tokens.weight"} | {"input_norm.weight": [96]}, tokenizer="bpe", target="llama", vocab_size=384,
        config=dict(architectures=["Eagle3Speculator"], draft_vocab_size=96, norm_before_residual=True,
            eagle_aux_hidden_state_layer_ids=[1, 3, 5], target_hidden_size=32, norm_before_fc=True,
            transformer_layer_config=dict(EAGLE, draft_vocab_size=None))),
    # No class of its own; factors of llama 3.
    "eagle3-llama": dict(hand=eagle, tokenizer="bpe", target="llama-llama3", config=dict(EAGLE,
        architectures=["LlamaForCausalLM"], rope_scaling=dict(LLAMA3), rope_theta=500000.0)),
    "dflash": dict(DRAFT, hand=dflash, config=dict(QWEN3, architectures=["DFlashDraftModel"], block_size=8,
        dflash_config=dict(mask_token_id=7, target_layer_ids=[0, 1]))),
    "dflash-target-sections": dict(hand=dflash2, tokenizer="bpe", target="qwen3vl", config=dict(QWEN3,
        architectures=["DFlash2DraftModel"], is_causal=False, use_sliding_window=True, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"], rope_scaling=dict(rope_type="default",
            partial_rotary_factor=0.5), dflash_config=dict(
            block_size=4, mask_token_id=5, target_layer_ids=[1], attention_value_scale=0.5, conv_kernel_size=4,
            conv_group_size=8, selector_rank=4, selector_top_k=8, output_multiplier=0.5, final_logit_softcapping=30.0,
            input_embedding_scale=2.0))),
    "dspark": dict(DRAFT, hand=lambda config: dflash(config, MARKOV | CONFIDENCE | {"lm_head.weight": [384, 32]}),
        config=dict(QWEN3, architectures=["Qwen3DSparkModel"], block_size=4, mask_token_id=6, target_layer_ids=[0, 1])),
    "dspark-speculator": dict(DRAFT, vocab_size=384, hand=lambda config: dflash(config, weights(
            markov_head__markov_w1=[96, 4], markov_head__markov_w2=[96, 4], lm_head=[96, 32]) | {
            "d2t": "steps:3 96 I64", "t2d": "numbers:" + "x".join("0" for _ in range(384)) + " 384 I64"}),
        config=dict(architectures=["DSparkSpeculator"], draft_vocab_size=96, aux_hidden_state_layer_ids=[1, 2],
            mask_token_id=9, transformer_layer_config=dict(QWEN3))),
    "gemma4-dspark": dict(hand=gemma4_dspark, tokenizer="llama_bpe", target="gemma4", raw_config=True, config=dict(HAND,
        architectures=["Gemma4DSparkModel"], model_type="gemma4_text", head_dim=8, global_head_dim=16,
        num_global_key_value_heads=1, attention_k_eq_v=True, layer_types=["full_attention"] * 2, mask_token_id=4,
        target_layer_ids=[1, 3], block_size=7, tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh",
        rope_parameters=dict(full_attention=dict(rope_type="proportional", rope_theta=1000000.0,
                                                 partial_rotary_factor=0.25)))),
    "muse-glimmer-assistant": dict(model="muse_glimmer_assistant", **{"class": "MuseGlimmerAssistantModel"}, bare=True,
        tokenizer="bpe", target="muse-glimmer", special=["<|eot|>"], vocab_size=384, config=dict(hidden_size=32,
            intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
            max_position_embeddings=512, sliding_window=16, bos_token_id=1, eos_token_id=2, pad_token_id=0, block_size=4,
            mask_token_id=8, target_layer_ids=[1, 3])),
}
KIMI_K3 = dict(HAND, kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10,
    num_key_value_heads=4, num_hidden_layers=3, num_experts=3, num_experts_per_token=2, moe_intermediate_size=32,
    num_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=2.5, moe_renormalize=True, mla_use_nope=True,
    moe_router_activation_func="sigmoid", routed_expert_hidden_size=32, hidden_act="situ", activation_situ_beta=1.5,
    activation_situ_linear_beta=0.5, attn_res_block_size=4, model_type="kimi_linear", linear_attn_config=dict(
        full_attn_layers=[2], kda_layers=[1, 3], num_heads=4, head_dim=8, short_conv_kernel_size=4, gate_lower_bound=-5.0))


def kimi_k3(config: dict) -> dict:
    full = kda() | weights(self_attn__g_proj=[32, 32]) | {"self_attn.A_log": "logarithms 4 F32"}
    full = {name: shape for name, shape in full.items() if ".g_a_" not in name and ".g_b_" not in name}
    residual = weights(self_attention_res_norm=[32], self_attention_res_proj=[1, 32], mlp_res_norm=[32],
                       mlp_res_proj=[1, 32])
    moe = {"gate.weight": [3, 32], "gate.e_score_correction_bias": [3], **mlp("shared_experts", 24), **weights(
        routed_expert_down_proj=[32, 32], routed_expert_up_proj=[32, 32], routed_expert_norm=[32]), **{
        f"experts.{x}.w{w}.weight": [32, 32] for x in range(3) for w in (1, 2, 3)}}
    each = lambda bid: NORMS | residual | (latent() | weights(self_attn__g_proj=[40, 32]) if bid == 1 else full) | (
        mlp() if bid == 0 else {f"block_sparse_moe.{name}": shape for name, shape in moe.items()})
    return {f"language_model.{name}": shape for name, shape in tensors(3, ENDS | weights(
        model__output_attn_res_norm=[32], model__output_attn_res_proj=[1, 32]), each).items()} | {
        "vision_tower.patch_embed.proj.weight": [16, 3, 4, 4], "mm_projector.pre_norm.weight": [16]}


QWEN4 = dict(HAND, **QWEN35_MOE, model_type="qwen4_exp_text", head_dim=8, num_hidden_layers=2, norm_topk_prob=True,
    linear_key_head_dim=4, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=6,
    linear_conv_kernel_dim=4, layer_types=["linear_attention", "full_attention"], full_attention_interval=2,
    rope_parameters=ROPE35, hc_count=2, hc_lowrank=8, ple_layer_ids=[1], ple_embed_dim=16, ple_conv_kernel_size=4,
    ngram_size=3, heads_per_ngram=2, split_ngram_parts=12, indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=8,
    indexer_budget=8, indexer_compress_ratio=4, eos_token_id=[1, 2])


def qwen4exp(config: dict) -> dict:
    stream = lambda name, inject: weights(**{f"{name}.hc_norm": [64], f"{name}.input_mix_weight_down": [8, 64],
        f"{name}.input_mix_weight_up": [64, 8], **({f"{name}.block_inject_weight": [2, 64]} if inject else {})})
    linear = weights(**{f"linear_attn__{name}": shape for name, shape in dict(in_proj_qkv=[64, 32], in_proj_z=[48, 32],
        in_proj_b=[6, 32], in_proj_a=[6, 32], conv1d=[64, 1, 4], norm=[8], out_proj=[32, 48]).items()}) | {
        "linear_attn.A_log": "logarithms 6", "linear_attn.dt_bias": [6]}
    ple = weights(ple__key_proj=[64, 16], ple__value_proj=[32, 16], ple__norm_key=[64], ple__norm_query=[64],
        ple__norm_conv=[64], ple__conv1d=[64, 1, 4]) | {
        "ple.ple_embedding.layer_multipliers": "numbers:24000000000001x7x13 3 I64",
        "ple.ple_embedding.ngram_heads_offsets": "numbers:0x11x23x37 4 I64",
        "ple.ple_embedding.ngram_heads_vocab_sizes": "numbers:11x12x14x11 4 I64",
        **{f"ple.ple_embedding.ngram_embedding.shard_{i}.weight": [4 if i else 6, 4] for i in range(12)}}
    full = attention(norms=8) | weights(self_attn__q_proj=[64, 32], self_attn__indexer__index_qk_proj=[24, 32],
        self_attn__indexer__q_layernorm=[8], self_attn__indexer__k_layernorm=[8])
    moe = {"mlp.gate.weight": [3, 32], "mlp.experts.gate_up_proj": [3, 48, 32], "mlp.experts.down_proj": [3, 32, 24],
           **mlp("mlp.shared_expert", 40), "mlp.shared_expert_gate.weight": [1, 32]}
    each = lambda bid: stream("attn_hyper_connection", True) | stream("mlp_hyper_connection", True) | moe | (
        full if bid else linear | ple)
    text = tensors(2, weights(model__embed_tokens=[384, 32], lm_head=[384, 32]) | {
        f"model.{name}": shape for name, shape in stream("hyper_connection_mixer", False).items()}, each)
    return {name.replace("model.", "model.language_model.", 1): shape for name, shape in text.items()} | {
        "model.visual.blocks.0.norm1.weight": [16], "mtp.fc.weight": [32, 64]}


SWITCH = dict(HAND, num_hidden_layers=3, num_adapters=2, max_lora_rank=4, adapter_token_ids=[5, 6],
    adapter_substitute_token_ids=[7, 8], shared_intermediate_size=48, num_local_experts=0, num_experts_per_tok=2,
    attention_multiplier=0.125, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0,
    tie_word_embeddings=True, model_type="granite_switch", rope_theta=10000.0)


def granite_switch(config: dict) -> dict:
    a, b = lambda width: [2, 1, 4, width], lambda rows: [2, 1, rows, 4]
    names = {"self_attn.qkv_proj.base_layer.weight": [64, 32], "self_attn.o_proj.base_layer.weight": [32, 32],
        "shared_mlp.input_linear.base_layer.weight": [96, 32], "shared_mlp.output_linear.base_layer.weight": [32, 48],
        **{f"self_attn.qkv_proj.lora_A_slices.{i}": a(32) for i in range(3)},
        **{f"self_attn.qkv_proj.lora_B_slices.{i}": b(rows) for i, rows in enumerate((32, 16, 16))},
        "self_attn.o_proj.lora_A": a(32), "self_attn.o_proj.lora_B": b(32),
        **{f"shared_mlp.input_linear.lora_A_slices.{i}": a(32) for i in range(2)},
        **{f"shared_mlp.input_linear.lora_B_slices.{i}": b(48) for i in range(2)},
        "shared_mlp.output_linear.lora_A": a(48), "shared_mlp.output_linear.lora_B": b(32)}
    return tensors(2, weights(model__embed_tokens=[384, 32], model__norm=[32]), lambda bid: NORMS | names) | {
        "model.switch.adapter_token_ids": "numbers:5x6 2 I64"}


GIANTS |= {
    "granite-switch": dict(hand=granite_switch, tokenizer="bpe", config=dict(SWITCH,
        architectures=["GraniteSwitchForCausalLM"])),
    "qwen4exp": dict(hand=qwen4exp, tokenizer="bpe", special=["<|endoftext|>", "<|user|>"], raw_config=True, config=dict(
        architectures=["Qwen4ExpForConditionalGeneration"], model_type="qwen4_exp", image_token_id=9, text_config=QWEN4)),
    "kimi-k3": dict(hand=kimi_k3, tokenizer="bpe", config=dict(architectures=["KimiK3ForConditionalGeneration"],
        model_type="kimi_k3", text_config=KIMI_K3, eos_token_id=3)),
}
# Rows of blocks need a multiple of 32.
DEEPSEEK4 = dict(TEXT, torch_dtype="bfloat16", architectures=["DeepseekV4ForCausalLM"], model_type="deepseek_v4",
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=16, qk_rope_head_dim=8,
    q_lora_rank=32, o_lora_rank=32, o_groups=2, moe_intermediate_size=32, n_routed_experts=3, n_shared_experts=1,
    num_experts_per_tok=2, scoring_func="sqrtsoftplus", norm_topk_prob=True, routed_scaling_factor=1.5, swiglu_limit=10.0,
    sliding_window=16, compress_ratios=[0, 4], compress_rope_theta=40000.0, rope_theta=10000.0, hc_mult=2,
    hc_sinkhorn_iters=5, hc_eps=1e-6, num_hash_layers=1, num_nextn_predict_layers=1, index_n_heads=2, index_head_dim=16,
    index_topk=8, rms_norm_eps=1e-6, expert_dtype="fp4", rope_scaling=dict(type="yarn", factor=4,
        original_max_position_embeddings=128, beta_fast=32, beta_slow=1), quantization_config=dict(quant_method="fp8",
        fmt="e4m3", scale_fmt="ue8m0", activation_scheme="dynamic", weight_block_size=[128, 128]))
del DEEPSEEK4["intermediate_size"]


def deepseek4_layer(bid: int, hashed: bool, compressed: bool) -> dict:
    fp8 = lambda name, rows, columns: {f"{name}.weight": f"f8 {rows}x{columns} F8_E4M3",
        f"{name}.scale": "exponents 1x1 F8_E8M0"}
    names = {"attn.attn_sink": "normal 4 F32", **weights(attn__q_norm=[32], attn__kv_norm=[16], attn_norm=[32],
        ffn_norm=[32], ffn__gate=[3, 32]), **fp8("attn.wq_a", 32, 32), **fp8("attn.wq_b", 64, 32), **fp8("attn.wkv", 16, 32),
        **fp8("attn.wo_a", 64, 32), **fp8("attn.wo_b", 32, 64),
        **{f"hc_{part}_{name}": f"normal {shape} F32" for part in ("attn", "ffn")
           for name, shape in (("fn", "8x64"), ("base", "8"), ("scale", "3"))}}
    for x in range(3):
        for w in (1, 2, 3):
            names |= {f"ffn.experts.{x}.w{w}.weight": "bytes 32x16 I8", f"ffn.experts.{x}.w{w}.scale": "exponents 32x1 F8_E8M0"}
    for w in (1, 2, 3):
        names |= fp8(f"ffn.shared_experts.w{w}", 32, 32)
    names |= {"ffn.gate.tid2eid": "below:3 384x2 I64"} if hashed else {"ffn.gate.bias": "normal 3 F32"}
    if compressed:
        names |= {"attn.compressor.ape": "normal 4x32 F32", **weights(attn__compressor__wkv=[32, 32],
            attn__compressor__wgate=[32, 32], attn__compressor__norm=[16], attn__indexer__weights_proj=[2, 32],
            attn__indexer__compressor__wkv=[32, 32], attn__indexer__compressor__wgate=[32, 32],
            attn__indexer__compressor__norm=[16]), "attn.indexer.compressor.ape": "normal 4x32 F32",
            **fp8("attn.indexer.wq_b", 32, 32)}
    return names


def deepseek4(config: dict) -> dict:
    return weights(embed=[384, 32], norm=[32], head=[384, 32]) | {f"hc_head_{name}": f"normal {shape} F32"
        for name, shape in (("fn", "2x64"), ("base", "2"), ("scale", "1"))} | {f"layers.{bid}.{name}": shape
        for bid in range(2) for name, shape in deepseek4_layer(bid, bid == 0, bid == 1).items()} | {
        "mtp.0.norm.weight": [32], "mtp.0.enorm.weight": [32]}


def deepseek4_dspark(config: dict) -> dict:
    root = {**weights(norm=[32], main_norm=[32], markov_head__markov_w1=[384, 4], markov_head__markov_w2=[384, 4],
        confidence_head__proj=[1, 36]), "main_proj.weight": "f8 32x64 F8_E4M3", "main_proj.scale": "exponents 1x1 F8_E8M0",
        **{f"hc_head_{name}": f"normal {shape} F32" for name, shape in (("fn", "2x64"), ("base", "2"), ("scale", "1"))}}
    return {f"mtp.1.{name}": shape for name, shape in root.items()} | {f"mtp.{bid}.{name}": shape for bid in range(2)
        for name, shape in deepseek4_layer(bid, False, False).items()} | weights(embed=[384, 32])


GIANTS |= {
    "deepseek4": dict(hand=deepseek4, tokenizer="bpe", config=DEEPSEEK4),
    "deepseek4-dspark": dict(hand=deepseek4_dspark, tokenizer="bpe", target="deepseek4", config=dict(DEEPSEEK4,
        architectures=["DeepseekV4DSparkModel"], dspark_block_size=4, dspark_noise_token_id=5,
        dspark_target_layer_ids=[0, 1])),
}
# The prediction left out, and alone, of names of three houses.
GIANTS |= {f"{name}-{asked}": dict(GIANTS.get(name) or MOE[name], prediction=asked) for name in ("glm4moe-old",
    "qwen3next-old", "glm-dsa-old", "dots3-mtp") for asked in ("only", "without")}
EXTRA = dict(nextn32=with_nextn)
