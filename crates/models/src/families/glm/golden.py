"""Golden recipes of GLM, by Z.ai: text, and images and audio in GLM-V and GLM-ASR."""

from recipes import attention, ends, ffn
from logits_own import first_of_equal
from tiny_models import (
    AS_IT_IS, HAND, INDEXER, LATENT, OLD, ROPE3, TEXT, WIDE_LATENT, few, layers, narrow_hub, predictions, sizes, tiny,
    with_indexed_nextn, with_nextn, wrapper)
from tiny_parts import ENDS, NORMS, experts, indexer, kda, latent, mlp, prediction, tensors
from tiny_towers import ONE, WHISPER, grid_look, tower, whisper, with_biases

GLM_TOKENS = ["<|endoftext|>", "<|user|>"]


def chatglm(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    return {
        "transformer.embedding.word_embeddings.weight": [v, h],
        "transformer.rotary_pos_emb.inv_freq": [2],
        **layers(config, {
            "transformer.encoder.layers.{}.input_layernorm.weight": [h],
            "transformer.encoder.layers.{}.self_attention.query_key_value.weight": [q + 2 * k, h],
            "transformer.encoder.layers.{}.self_attention.query_key_value.bias": [q + 2 * k],
            "transformer.encoder.layers.{}.self_attention.dense.weight": [h, q],
            "transformer.encoder.layers.{}.post_attention_layernorm.weight": [h],
            "transformer.encoder.layers.{}.mlp.dense_h_to_4h.weight": [2 * f, h],
            "transformer.encoder.layers.{}.mlp.dense_4h_to_h.weight": [h, f]}),
        "transformer.encoder.final_layernorm.weight": [h], "transformer.output_layer.weight": [v, h],
    }


GLM_SPECIAL = ["<|endoftext|>", "[MASK]", "[gMASK]", "<|user|>", "<|observation|>"]


def with_glm_ocr(tensors: dict, config) -> dict:
    """A layer after the last, which predicts the token after the next."""
    import torch
    last = {name.replace(".layers.1.", ".layers.2."): torch.randn_like(tensor) * 0.05 for name, tensor in tensors.items()
            if ".language_model.layers.1." in name}
    start = "model.language_model.layers.2."
    width = config.text_config.hidden_size
    own = {"eh_proj": [width, 2 * width], "enorm": [width], "hnorm": [width], "shared_head.norm": [width],
           "shared_head.head": [384, width], "embed_tokens": [384, width]}
    last |= {f"{start}{name}.weight": torch.randn(shape) * 0.05 for name, shape in own.items()}
    return tensors | {name: tensor.to(torch.bfloat16) for name, tensor in last.items()}


ROPE_GLM = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_section=[1, 1, 2])
GLM_TOWER = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, image_size=16,
    out_hidden_size=32)
GLM_TEXT = dict(rope_parameters=ROPE_GLM, num_attention_heads=2, num_key_value_heads=1, pad_token_id=0)


def old_text(text: dict, **more) -> dict:
    """A `text_config` as the Hub has it: flat rotary keys."""
    rope = dict(text["rope_parameters"])
    flat = dict(rope_theta=rope.pop("rope_theta"), partial_rotary_factor=rope.pop("partial_rotary_factor", None))
    return {key: value for key, value in dict(TEXT, **dict(text, **flat, rope_scaling=rope, **more)).items()
            if key != "rope_parameters" and value is not None}


GLM_MOE = dict(GLM_TEXT, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=12, n_shared_experts=1)
# The reference wants these beside what transformers writes.
KDA = dict(num_heads=4, head_dim=8, short_conv_kernel_size=4, gate_lower_bound=-5.0)
GLM5 = dict(HAND, **{**LATENT, "qk_rope_head_dim": 0, "num_hidden_layers": 4}, **INDEXER, model_type="glm5_next_text",
    n_shared_experts=1, routed_scaling_factor=2.5, norm_topk_prob=True, scoring_func="sigmoid", n_group=1,
    topk_group=1, first_k_dense_replace=1, head_dim=8, mhc=True, hc_mult=2, hc_eps=1e-6, hc_sinkhorn_iters=5,
    index_kpool=4, index_kpool_always_select_tail=True, mla_use_nope=True, swiglu_limit=10.0, linear_attn_config=KDA,
    layer_types=["linear_attention", "linear_attention", "full_attention", "full_attention"],
    indexer_types=["full", "full", "full", "shared"])


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


def experts_apart(tensors: dict, _) -> dict:
    """A matrix for each expert, as in the Hub's files; transformers saves GLM 4.6V with stacked experts."""
    found = {}
    for name, value in tensors.items():
        start, _, part = name.rpartition(".")
        names = dict(gate_up_proj=("gate_proj", "up_proj"), down_proj=("down_proj",)).get(part)
        if not names:
            found[name] = value
            continue
        for xid, expert in enumerate(value):
            for half, matrix in zip(names, expert.chunk(len(names)), strict=True):
                found[f"{start}.{xid}.{half}.weight"] = matrix.contiguous().clone()
    return found


CHECKPOINTS = {
    "glm": tiny(model="glm", tokenizer="bpe", special=GLM_TOKENS, config=dict(head_dim=8)),
    "glm-old": tiny(model="glm", tokenizer="bpe", special=GLM_TOKENS, config=dict(head_dim=8, attention_bias=False,
        tie_word_embeddings=True), old=dict(OLD, partial_rotary_factor=0.5, rope_theta=10000.0)),
    "glm4": tiny(model="glm4", tokenizer="bpe", special=GLM_TOKENS, config=dict(head_dim=8)),
    "glm4-old": tiny(model="glm4", tokenizer="bpe", special=GLM_TOKENS, config=dict(head_dim=8, attention_bias=False),
        old=dict(OLD, partial_rotary_factor=0.5, rope_theta=10000.0)),
    "chatglm": tiny(hand=chatglm, tokenizer="bpe", special=GLM_TOKENS,
        rename=dict(num_key_value_heads="multi_query_group_num", num_hidden_layers="num_layers",
        intermediate_size="ffn_hidden_size", rms_norm_eps="layernorm_epsilon", max_position_embeddings="seq_length"),
        config=narrow_hub("ChatGLMModel", "chatglm", multi_query_attention=True, rms_norm_eps=1.5625e-07,
        padded_vocab_size=288, rope_ratio=500, add_qkv_bias=True)),
    "glm4moe": dict(model="glm4_moe", tokenizer="bpe", special=GLM_SPECIAL, config=few("n_routed_experts",
        moe_intermediate_size=12, n_shared_experts=1, head_dim=8, attention_bias=True)),
    "glm4moe-old": dict(model="glm4_moe", tokenizer="bpe", special=GLM_SPECIAL, extra=with_nextn,
        drop=("num_mtp_layers",), config=few("n_routed_experts", moe_intermediate_size=12, n_shared_experts=1,
        head_dim=8, use_qk_norm=True), old=dict(OLD, rope_theta=1000000, rope_scaling=None, partial_rotary_factor=0.5,
        num_nextn_predict_layers=1)),
    "glm4-moe-lite": dict(model="glm4_moe_lite", tokenizer="bpe", special=GLM_SPECIAL, config=dict(TEXT, **LATENT)),
    "glm4-moe-lite-old": dict(model="glm4_moe_lite", tokenizer="bpe", special=GLM_SPECIAL, config=dict(TEXT, **LATENT),
        drop=("mlp_layer_types",), old=dict(OLD, first_k_dense_replace=1, rope_theta=1000000, rope_scaling=None,
        num_nextn_predict_layers=1, partial_rotary_factor=1.0)),
    "glm4v": wrapper("glm4v", "Glm4vForConditionalGeneration", GLM_TEXT, vision_config=GLM_TOWER,
        more=dict(special=GLM_TOKENS)),
    "glm4v-old": wrapper("glm4v", "Glm4vForConditionalGeneration", GLM_TEXT, vision_config=GLM_TOWER,
        more=dict(special=GLM_TOKENS, more=dict(text_config=old_text(GLM_TEXT, attention_bias=True,
        model_type="glm4v_text")))),
    "glm4v-moe": wrapper("glm4v_moe", "Glm4vMoeForConditionalGeneration", GLM_MOE, vision_config=GLM_TOWER,
        more=dict(special=GLM_SPECIAL)),
    "glm46v": wrapper("glm46v", "Glm46VForConditionalGeneration", dict(GLM_TEXT, model_type="glm4v_text"),
        vision_config=GLM_TOWER, more=dict(special=GLM_TOKENS, reference=dict(set=dict(
        architectures=["Glm4vForConditionalGeneration"], model_type="glm4v")))),
    "glm46v-moe": wrapper("glm46v", "Glm46VForConditionalGeneration", dict(GLM_MOE, model_type="glm4v_moe_text"),
        vision_config=GLM_TOWER, more=dict(special=GLM_SPECIAL, given_as=experts_apart, reference=dict(set=dict(
        architectures=["Glm4vMoeForConditionalGeneration"], model_type="glm4v_moe")))),
    "glm-ocr": wrapper("glm_ocr", "GlmOcrForConditionalGeneration", dict(GLM_TEXT, head_dim=16,
        num_nextn_predict_layers=1), vision_config=GLM_TOWER, more=dict(special=GLM_TOKENS, extra=with_glm_ocr)),
    "glm-dsa": dict(model="glm_moe_dsa", tokenizer="bpe", special=GLM_SPECIAL, config=dict(TEXT, **LATENT, **INDEXER,
        first_k_dense_replace=1, indexer_types=["full", "full", "shared"])),
    "glm-dsa-old": dict(model="glm_moe_dsa", tokenizer="bpe", special=GLM_SPECIAL, extra=with_indexed_nextn,
        config=dict(TEXT, **LATENT, **INDEXER, first_k_dense_replace=1),
        drop=("mlp_layer_types", "layer_types", "head_dim", "indexer_types"), old=dict(OLD, rope_theta=1000000,
        scoring_func="sigmoid", num_nextn_predict_layers=1)),
    "glm5-next": dict(hand=glm5_next, tokenizer="bpe", special=GLM_SPECIAL,
        config=dict(architectures=["Glm5NextForConditionalGeneration"], model_type="glm5_next", text_config=dict(GLM5,
        num_nextn_predict_layers=0))),
    "glm5-next-mtp": dict(hand=glm5_next, tokenizer="bpe", special=GLM_SPECIAL,
        config=dict(architectures=["Glm5NextForConditionalGeneration"], model_type="glm5_next", text_config=dict(GLM5,
        num_nextn_predict_layers=1))),
}

CHECKPOINTS |= predictions("glm4moe-old", CHECKPOINTS["glm4moe-old"])
CHECKPOINTS |= predictions("glm-dsa-old", CHECKPOINTS["glm-dsa-old"])

GLM4V = dict(GLM_TOWER, depth=3)


def glmasr(_: dict) -> dict:
    adapter = {"audio_encoder.layer_norm": [16], "audio_encoder.adapting.0": [48, 64], "audio_encoder.adapting.2": [32, 48]}
    return whisper("audio_encoder.whisper.") | with_biases(adapter) | {
        "audio_encoder.audio_bos_eos_token.weight": [2, 32], "model.embed_tokens.weight": [384, 32]}


PROJECTORS = {
    "glm4v": tower("glm4v", "Glm4vForConditionalGeneration", dict(rope_parameters=dict(ROPE3,
        partial_rotary_factor=1.0)), AS_IT_IS, vision_config=GLM4V),
    "glm4v-moe": tower("glm4v_moe", "Glm4vMoeForConditionalGeneration", dict(n_routed_experts=2, num_experts_per_tok=1,
        moe_intermediate_size=12, rope_parameters=dict(ROPE3, partial_rotary_factor=0.5)), AS_IT_IS,
        vision_config=GLM4V),
    "glm-ocr": tower("glm_ocr", "GlmOcrForConditionalGeneration", dict(head_dim=16, rope_parameters=dict(ROPE3,
        partial_rotary_factor=1.0)), AS_IT_IS, vision_config=GLM4V),
    "glm5v": tower("glm5_next", "Glm5NextForConditionalGeneration", dict(head_dim=8, num_key_value_heads=4),
        dict(AS_IT_IS, preprocessor=dict(min_image_tokens=4, max_image_tokens=64, patch_size=4, merge_size=2)),
        vision_config=dict(GLM4V, swiglu_limit=7.0)),
    "glmasr": dict(tokenizer="bpe", preprocessor=None, hand=glmasr, config=dict(architectures=["GlmasrModel"],
        model_type="Glmasr", merge_factor=4, lm_config=dict(ONE, model_type="llama"), text_config=dict(vocab_size=384),
        whisper_config={key: value for key, value in WHISPER.items() if key in ("d_model", "encoder_layers",
        "encoder_ffn_dim", "encoder_attention_heads", "num_mel_bins")})),
}


def spoken(_: dict) -> dict:
    """The tensors of the released checkpoint, which lacks Whisper's final norm. Its learned positions are not used."""
    adapter = {"audio_encoder.layer_norm": [16], "audio_encoder.adapting.0": [64, 64], "audio_encoder.adapting.2": [32, 64]}
    layers = {f"audio_encoder.whisper.layers.{i}.{part}": shape for i in range(WHISPER["encoder_layers"])
              for part, shape in (("fc1", [64, 16]), ("fc2", [16, 64]))}
    tensors = whisper("audio_encoder.whisper.") | with_biases(adapter | layers) | {
        "audio_encoder.audio_bos_eos_token.weight": [2, 32], "model.embed_tokens.weight": [384, 32]}
    return {name: shape for name, shape in tensors.items() if not name.startswith("audio_encoder.whisper.layer_norm")}


def load_spoken(folder):
    """The model of transformers with these weights. Rows of queries and keys are reordered: in the rotating half of each head, even
    rows come before odd ones."""
    import torch
    import transformers
    from safetensors.torch import load_file
    audio = dict(hidden_size=16, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2, num_mel_bins=8)
    config = transformers.GlmAsrConfig(audio_config=audio, text_config=dict(ONE, model_type="llama"))
    config._attn_implementation = "eager"
    model = transformers.GlmAsrForConditionalGeneration(config)
    names = [("audio_encoder.whisper.", "audio_tower."), ("audio_encoder.layer_norm.", "audio_tower.norm."),
             ("audio_encoder.adapting.0.", "multi_modal_projector.linear_1."), ("self_attn_layer_norm", "input_layernorm"),
             ("audio_encoder.adapting.2.", "multi_modal_projector.linear_2."), ("out_proj", "o_proj"),
             ("final_layer_norm", "post_attention_layernorm"), (".fc", ".mlp.fc")]
    order = torch.tensor([[8 * head + i for i in (0, 2, 1, 3, 4, 5, 6, 7)] for head in range(2)]).flatten()
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name.startswith("audio_encoder.") and not name.endswith(("embed_positions.weight", "eos_token.weight")):
            tensor = tensor[order] if ".q_proj." in name or ".k_proj." in name else tensor
            for old, new in names:
                name = name.replace(old, new)
            tensors["model." + name] = tensor.float()
    result = model.load_state_dict(tensors, strict=False)
    missing = [name for name in result.missing_keys if "language_model" not in name and "lm_head" not in name]
    assert not missing and not result.unexpected_keys, result
    return model.float()


def hear_apart(extractor, wave):
    made = extractor([wave], sampling_rate=16000, padding="max_length", return_attention_mask=True, return_tensors="pt")
    counts = [((n - 1) // 2 + 1 - 4) // 4 + 1 for n in made["attention_mask"].sum(-1).tolist()]
    return dict(input_features=made["input_features"], input_features_mask=made["attention_mask"]), counts


AUDIO = {
    "glmasr": dict(PROJECTORS["glmasr"], hand=spoken, load=load_spoken, hear=hear_apart),
}

WIDE = {
    "chatglm": {},
    "glm4": dict(head_dim=64),
    "glm4v": {},
    "glm4v-moe": dict(moe_intermediate_size=256),
    "glm-dsa": dict(WIDE_LATENT, q_lora_rank=256, index_head_dim=64),
}


def glm5_text(config, tensors):
    """Without a tower, and with the layers that have experts, which the Hub's files say in another way."""
    text = config["text_config"]
    n = text["num_hidden_layers"]
    text["mlp_layer_types"] = ["dense"] + ["sparse"] * (n - 1)
    config["vision_config"] = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2)
    return config, {name: tensor.flatten() if name.endswith("A_log") else tensor
                    for name, tensor in tensors.items() if "visual" not in name}


LOGITS = {
    "chatglm": dict(by="reference"),
    "glm-dsa": dict(prepare=first_of_equal),
    "glm-dsa-old": dict(prepare=first_of_equal),
    "glm5-next": dict(spelled=glm5_text, prepare=first_of_equal),
}
TOWER_TYPES = {"glm4v", "glm4v_moe", "glm5_next", "glm_ocr"}


def v46_tensors():
    layers, moe, d = list(range(46)), list(range(1, 46)), 4096
    return ends(d, 151552) + attention(d, 12288, 1024, layers) + ffn(d, 10944, [0]) + ffn(d, 1408, moe, "_exps", (128,)) \
        + ffn(d, 1408, moe, "_shexp") + [(moe, "ffn_gate_inp.weight", (d, 128)), (moe, "exp_probs_b.bias", (128,))]


SNAPSHOTS = {
    "glm-4.6v": ("glm4moe", dict(n_embd=4096, n_ff=10944, n_vocab=151552, n_layer=46, n_head=96, n_head_kv=8,
        n_expert=128), v46_tensors()),
}


# Two frames of a patch of 4 and squares of 2 x 2: 64 pixels to an embedding, of which mtmd takes 8 to 4096.
LOOK = grid_look("glm4v.image_processing_pil_glm4v", "Glm4vImageProcessorPil",
    dict(shortest_edge=2 * 8 * 64, longest_edge=2 * 4096 * 64), temporal_patch_size=2)
# Bounds as in the preprocessor's file.
LOOK5 = grid_look("glm5_next.image_processing_pil_glm5_next", "Glm5NextImageProcessorPil", dict(longest_edge=1),
    temporal_patch_size=2, min_image_tokens=4, max_image_tokens=64)
VISION = {
    "glm5v": dict(tower("glm5_next", "Glm5NextForConditionalGeneration", dict(head_dim=8, num_key_value_heads=4),
        AS_IT_IS, vision_config=dict(GLM4V, swiglu_limit=7.0)), **LOOK5, tower_only=True, preprocessor=dict(min_image_tokens=4,
        max_image_tokens=64, patch_size=4, merge_size=2)),
    "glm4v": dict(tower("glm4v", "Glm4vForConditionalGeneration", dict(num_hidden_layers=2, rope_parameters=dict(ROPE3,
        partial_rotary_factor=1.0)), AS_IT_IS, vision_config=GLM4V), **LOOK),
    "glm-ocr": dict(tower("glm_ocr", "GlmOcrForConditionalGeneration", dict(num_hidden_layers=2, head_dim=16,
        rope_parameters=dict(ROPE3, mrope_section=[4, 2, 2], partial_rotary_factor=1.0)), AS_IT_IS, vision_config=GLM4V), **LOOK),
}
