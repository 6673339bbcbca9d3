"""Golden recipes of DeepSeek, and models of other vendors with the same classes; images in DeepSeek-OCR."""

from unittest import mock

from headers import RMS, Header, heads
from logits_own import first_of_equal, loaded, read, stacked, text_of
from recipes import ends, ffn
from tiny_models import (
    INDEXER, LATENT, NARROW_HAND, OLD, TEXT, WIDE_LATENT, YARN, by_layer, few, gpt2_vocab, with_indexed_nextn, with_lm_head,
    with_nextn, wrapper)
from tiny_parts import mlp, weights
from tiny_towers import ONE, with_biases

NARROW_LATENT = dict(moe_intermediate_size=12, first_k_dense_replace=1, kv_lora_rank=6, qk_nope_head_dim=8,
    qk_rope_head_dim=4, v_head_dim=5, num_key_value_heads=4)


def deepseek() -> dict:
    attention = {f"self_attn.{x}_proj": [8 if x in "kv" else 16, 16] for x in "qkvo"}
    return {"model.embed_tokens.weight": [288, 16], **by_layer(0, attention, False, 24),
        **by_layer(1, attention, True, 24),
            "model.norm.weight": [16], "lm_head.weight": [288, 16]}


MIXTURE = dict(TEXT, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, n_routed_experts=3,
    num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1, first_k_dense_replace=1, moe_layer_freq=1,
    num_key_value_heads=4, rms_norm_eps=1e-5, rope_theta=800000.0, routed_scaling_factor=2.446, norm_topk_prob=True,
    scoring_func="sigmoid", topk_method="noaux_tc", n_group=1, topk_group=1, q_lora_rank=None)


def mixture_layers(start: str, attention: dict) -> dict:
    """Two layers, the first of them dense, the second a mixture of three experts."""
    tensors = {f"{start}model.embed_tokens.weight": [384, 32], f"{start}model.norm.weight": [32],
               f"{start}lm_head.weight": [384, 32]}
    for i in range(2):
        layer = f"{start}model.layers.{i}."
        parts = {"mlp": 48} if i == 0 else {f"mlp.experts.{x}": 24 for x in range(3)} | {"mlp.shared_experts": 24}
        tensors |= {f"{layer}{name}.weight": [32] for name in ("input_layernorm", "post_attention_layernorm")}
        tensors |= {f"{layer}self_attn.{name}.weight": shape for name, shape in attention.items()}
        if i == 1:
            tensors |= {f"{layer}mlp.gate.weight": [3, 32], f"{layer}mlp.gate.e_score_correction_bias": [3]}
        for part, rows in parts.items():
            tensors |= mlp(f"{layer}{part}", rows)
    return tensors


LATENT_ATTENTION = {"q_proj": [80, 32], "kv_a_proj_with_mqa": [24, 32], "kv_a_layernorm": [16], "kv_b_proj": [88, 16],
                    "o_proj": [32, 40]}
PLAIN_ATTENTION = {"q_proj": [32, 32], "k_proj": [32, 32], "v_proj": [32, 32], "o_proj": [32, 32]}


def kimi_vl(config: dict) -> dict:
    return {**mixture_layers("language_model.", LATENT_ATTENTION), "vision_tower.patch_embed.proj.weight": [16, 3, 4, 4],
            "multi_modal_projector.linear_1.weight": [32, 16]}


def ocr_text(config: dict) -> dict:
    tensors = mixture_layers("", PLAIN_ATTENTION)
    del tensors["model.layers.1.mlp.gate.e_score_correction_bias"]
    return {**tensors, "model.sam_model.patch_embed.proj.weight": [16, 3, 4, 4], "model.image_newline": [32],
            "model.vision_model.embeddings.class_embedding": [16], "model.projector.layers.weight": [32, 16],
            "model.view_seperator": [32]}


OCR_TEXT = {key: value for key, value in MIXTURE.items() if key not in (
    "kv_lora_rank", "scoring_func", "topk_method", "rope_theta", "q_lora_rank", "norm_topk_prob")}
OCR_TEXT |= dict(kv_lora_rank=None, q_lora_rank=None, qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0,
    use_mla=False, topk_method="greedy", architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2")
# Rows of blocks need a multiple of 32.
DEEPSEEK4 = dict(TEXT, torch_dtype="bfloat16", architectures=["DeepseekV4ForCausalLM"], model_type="deepseek_v4",
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=16, qk_rope_head_dim=8,
    q_lora_rank=32, o_lora_rank=32, o_groups=2, moe_intermediate_size=32, n_routed_experts=3, n_shared_experts=1,
    num_experts_per_tok=2, scoring_func="sqrtsoftplus", norm_topk_prob=True, routed_scaling_factor=1.5,
    swiglu_limit=10.0, sliding_window=16, compress_ratios=[0, 4], compress_rope_theta=40000.0, rope_theta=10000.0,
    hc_mult=2, hc_sinkhorn_iters=5, hc_eps=1e-6, num_hash_layers=1, num_nextn_predict_layers=1, index_n_heads=2,
    index_head_dim=16, index_topk=8, rms_norm_eps=1e-6, expert_dtype="fp4", rope_scaling=dict(type="yarn", factor=4,
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


# The class asks for a BOS token, because transformers 5 does not pass on what tokenizer_config.json states.
BYTE_LEVEL = gpt2_vocab("deepseek", "DeepseekV32Model")

def ocr_of_transformers(model: str, name: str, own_name: str, **vision) -> dict:
    """The class of transformers, which lists kinds of layers. The reference reads the authors' keys."""
    text = dict(n_routed_experts=3, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=24,
        num_key_value_heads=4, n_group=1, topk_group=1, mlp_layer_types=["dense", "sparse"])
    keys = {key: OCR_TEXT[key] for key in ("first_k_dense_replace", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
        "v_head_dim", "use_mla")}
    return wrapper(model, name, text, vision_config=dict(sam_config=dict(hidden_size=16, output_channels=8,
        num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4, mlp_dim=24, window_size=2,
        global_attn_indexes=[1], downsample_channels=[16, 32]), **vision), more=dict(reference=dict(set=keys | dict(
        architectures=[own_name], model_type="DeepseekOCR")), raw_config=True))


def with_layers(_) -> list:
    """transformers saves the layers of Kimi K2.5 with a name of the tower."""
    from conversion.deepseek import DeepseekV2Model
    kept = DeepseekV2Model.filter_tensors
    renamed = lambda item: kept((item[0].replace("model.blocks.", "model.layers."), item[1]))
    return [mock.patch.object(DeepseekV2Model, "filter_tensors", staticmethod(renamed))]


CHECKPOINTS = {
    "deepseek-ocr2": ocr_of_transformers("deepseek_ocr2", "DeepseekOcr2ForConditionalGeneration", "DeepseekOCRForCausalLM",
        encoder_config=dict(hidden_size=32, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=16)),
    "unlimited-ocr-hf": ocr_of_transformers("unlimited_ocr", "UnlimitedOcrForConditionalGeneration",
        "UnlimitedOCRForCausalLM", encoder_config=dict(hidden_size=32, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, image_size=16, patch_size=4)),
    "kimi-k2.5": wrapper("kimi_k25", "Kimi_K25ForConditionalGeneration", dict(LATENT, model_type="deepseek_v3",
        num_hidden_layers=2, first_k_dense_replace=1, n_group=1, topk_group=1), vision_config=dict(hidden_size=16,
        intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, patch_size=4, pos_emb_height=8, pos_emb_width=8,
        pos_emb_time=2, merge_kernel_size=[2, 2]), projection_hidden_size=16, more=dict(patches=with_layers,
        reference=dict(set=dict(architectures=["KimiK25ForConditionalGeneration"])))),
    "deepseek2": dict(model="deepseek_v2", tokenizer="bpe", config=dict(few("n_routed_experts", q_lora_rank=None,
        **NARROW_LATENT), n_shared_experts=1, rope_parameters=YARN)),
    "deepseek2-old": dict(model="deepseek_v2", tokenizer="bpe", config=dict(few("n_routed_experts", q_lora_rank=10,
        **NARROW_LATENT), n_shared_experts=2, n_group=2, topk_group=1, tie_word_embeddings=True), extra=with_lm_head,
        drop=("head_dim", "first_k_dense_replace"), old=dict(OLD, rope_theta=10000, scoring_func="softmax",
        topk_method="group_limited_greedy", moe_layer_freq=1, first_k_dense_replace=1, aux_loss_alpha=0.001,
        seq_aux=True, ep_size=1, routed_scaling_factor=16.0, rope_scaling=dict(type="yarn", factor=40,
        original_max_position_embeddings=4096, beta_fast=32, beta_slow=1, mscale=0.707, mscale_all_dim=0.707))),
    "deepseek3": dict(model="deepseek_v3", tokenizer="bpe", config=dict(few("n_routed_experts", q_lora_rank=10,
        **NARROW_LATENT), n_shared_experts=1, n_group=2, topk_group=1)),
    "deepseek3-old": dict(model="deepseek_v3", whole=True, tokenizer="bpe", extra=with_nextn, config=dict(few("n_routed_experts",
        q_lora_rank=10, **NARROW_LATENT), n_shared_experts=1, n_group=2, topk_group=1),
        drop=("num_mtp_layers", "head_dim"), old=dict(OLD, rope_theta=10000, scoring_func="sigmoid",
        topk_method="noaux_tc", moe_layer_freq=1, num_nextn_predict_layers=1, ep_size=1, rope_scaling=dict(type="yarn",
        factor=40, original_max_position_embeddings=4096, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0))),
    "deepseek": dict(hand=deepseek(), tokenizer="bpe", config=dict(NARROW_HAND,
        architectures=["DeepseekForCausalLM"], model_type="deepseek", n_routed_experts=4, n_shared_experts=2,
        first_k_dense_replace=1, moe_layer_freq=1, norm_topk_prob=False, scoring_func="softmax", rope_theta=10000.0)),
    "youtu": dict(model="youtu", tokenizer="bpe", config=dict(kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8,
        qk_nope_head_dim=12, v_head_dim=10, num_key_value_heads=4)),
    "kimi-vl": dict(hand=kimi_vl, tokenizer="bpe", config=dict(architectures=["KimiVLForConditionalGeneration"],
        model_type="kimi_vl", vocab_size=384, torch_dtype="bfloat16", text_config=dict(MIXTURE,
        model_type="deepseek_v3"), vision_config={})),
    "deepseek-ocr": dict(hand=ocr_text, tokenizer="bpe", config=dict(architectures=["DeepseekOCRForCausalLM"],
        model_type="DeepseekOCR", vocab_size=384, torch_dtype="bfloat16", language_config=OCR_TEXT, vision_config={})),
    "unlimited-ocr": dict(hand=ocr_text, tokenizer="bpe", config=dict(OCR_TEXT,
        architectures=["UnlimitedOCRForCausalLM"], model_type="unlimited-ocr", torch_dtype="bfloat16",
        sliding_window_size=128)),
    "deepseek3.2": dict(model="deepseek_v32", tokenizer="bpe", tokenizer_config=dict(add_bos_token=True),
        patches=BYTE_LEVEL, config=dict(TEXT, **LATENT, **INDEXER, first_k_dense_replace=1, n_group=1, topk_group=1)),
    "deepseek3.2-old": dict(model="deepseek_v32", tokenizer="bpe", tokenizer_config=dict(add_bos_token=True),
        patches=BYTE_LEVEL, config=dict(TEXT, **LATENT, **INDEXER, first_k_dense_replace=1, n_group=1, topk_group=1),
        extra=with_indexed_nextn, drop=("mlp_layer_types", "layer_types", "head_dim"), old=dict(OLD, rope_theta=10000,
        scoring_func="sigmoid", topk_method="noaux_tc", num_nextn_predict_layers=1, rope_scaling=dict(YARN,
        type="yarn"))),
    "deepseek4": dict(hand=deepseek4, tokenizer="bpe", config=DEEPSEEK4),
    "deepseek4-dspark": dict(hand=deepseek4_dspark, tokenizer="bpe", target="deepseek4", config=dict(DEEPSEEK4,
        architectures=["DeepseekV4DSparkModel"], dspark_block_size=4, dspark_noise_token_id=5,
        dspark_target_layer_ids=[0, 1])),
}

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


def ocr_towers(config: dict) -> dict:
    tower = "model.vision_model."
    shapes = {tower + "pre_layrnorm": [16]}
    plain = {tower + "embeddings.class_embedding": [16], tower + "embeddings.patch_embedding.weight": [16, 3, 4, 4],
             tower + "embeddings.position_embedding.weight": [17, 16], "model.image_newline": [32]}
    for i in range(4):
        layer = f"{tower}transformer.layers.{i}."
        shapes |= {layer + "layer_norm1": [16], layer + "layer_norm2": [16], layer + "self_attn.qkv_proj": [48, 16],
                   layer + "self_attn.out_proj": [16, 16], layer + "mlp.fc1": [64, 16], layer + "mlp.fc2": [16, 64]}
    return sam(config) | with_biases(shapes) | plain


def ocr2_towers(config: dict) -> dict:
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

def v4_tower(config: dict) -> dict:
    layer = {"norm1.weight": [16], "norm2.weight": [16], "attn.wqkv.weight": [48, 16], "attn.wqkv.bias": [48],
             "attn.wo.weight": [16, 16], "attn.wo.bias": [16], "mlp.w1.weight": [48, 16], "mlp.w2.weight": [16, 24]}
    return {"vision.patch_embed.proj.weight": [16, 48], "vision.patch_embed.proj.bias": [16], "vision.norm.weight": [16],
            **{f"vision.blocks.{i}.{name}": shape for i in range(3) for name, shape in layer.items()},
            "aligner.w1.weight": [48, 64], "aligner.w2.weight": [32, 48], "image_newline": [32], "image_start": [32],
            "image_end": [32], "image_pad": [32], "embed.weight": [384, 32]}


PROJECTORS = {
    "deepseek4": dict(hand=v4_tower, tokenizer="bpe", preprocessor=None, raw_config=True, config=dict(
        {key: value for key, value in DEEPSEEK4.items() if key != "quantization_config"}, vision_n_layers=3,
        vision_dim=16, vision_n_heads=2, vision_inter_dim=24, vision_patch_size=4, vision_downsample_ratio=2,
        vision_rope_theta=10000.0, vision_min_pixels=1024, vision_max_n_token=384, vision_max_wh_ratio=8)),
    "deepseekocr": ocr("DeepseekOCRForCausalLM", ocr_towers, CLIP, preprocessor=dict(image_seq_length=4)),
    "unlimitedocr": ocr("UnlimitedOCRForCausalLM", ocr_towers, CLIP),
    "deepseekocr2": ocr("DeepseekOCR2ForCausalLM", ocr2_towers, {"qwen2-0-5b": dict(dim=16)}),
}

WIDE = {
    "deepseek2": dict(WIDE_LATENT, q_lora_rank=64),
    "deepseek3": dict(WIDE_LATENT, q_lora_rank=96),
    "youtu": dict(kv_lora_rank=256, q_lora_rank=64, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
        num_key_value_heads=4),
}


def ocr_logits(folder, tokens):
    """The text part of Unlimited-OCR, which is that of DeepSeek-OCR but for windows of what it generates."""
    import torch
    import torch.nn.functional as F
    from transformers.models.unlimited_ocr.configuration_unlimited_ocr import UnlimitedOcrTextConfig
    from transformers.models.unlimited_ocr.modeling_unlimited_ocr import UnlimitedOcrTextModel
    config, tensors = read(folder)
    config = config.get("language_config", config)
    config = {key: value for key, value in config.items() if key not in ("model_type", "architectures", "sliding_window_size")}
    head = tensors.pop("lm_head.weight")
    text = {name.removeprefix("model."): tensor for name, tensor in tensors.items()
            if name.startswith(("model.layers.", "model.embed_tokens.", "model.norm."))}
    for i in range(config["first_k_dense_replace"], config["num_hidden_layers"]):
        text |= stacked(text, f"layers.{i}.mlp.", config["n_routed_experts"])
    config["rope_parameters"] = dict(rope_type="default", rope_theta=config.get("rope_theta", 10000.0))
    config["layer_types"] = ["full_attention"] * config["num_hidden_layers"]
    config["mlp_layer_types"] = ["dense"] * config["first_k_dense_replace"] + ["sparse"] * (
        config["num_hidden_layers"] - config["first_k_dense_replace"])
    model = loaded(UnlimitedOcrTextModel(UnlimitedOcrTextConfig(**config, attn_implementation="eager")), text)
    return F.linear(model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0], head).numpy(), False, None


def rounded_fp8(model):
    """Matrices of FP8 as files have them, in Q8_0."""
    import torch
    from gguf import GGMLQuantizationType, quants
    first_of_equal(model)
    kind = GGMLQuantizationType.Q8_0
    ends = ("q_a_proj", "q_b_proj", "self_attn.kv_proj", "o_a_proj", "o_b_proj") + tuple(
        f"shared_experts.{part}_proj" for part in ("gate", "up", "down"))
    for name, parameter in model.named_parameters():
        if name.removesuffix(".weight").endswith(ends):
            rounded = quants.dequantize(quants.quantize(parameter.detach().numpy(), kind), kind)
            parameter.data = torch.from_numpy(rounded)


TOWER_TYPES = {"deepseek_ocr2", "kimi_k25", "unlimited_ocr"}
LOGITS = {
    "deepseek": dict(by="reference"),
    "deepseek2-old": dict(by="reference"),
    "deepseek3.2": dict(prepare=first_of_equal),
    "deepseek3.2-old": dict(prepare=first_of_equal),
    "deepseek4": dict(prepare=rounded_fp8),
    "deepseek-ocr": dict(run=ocr_logits),
    "kimi-vl": dict(spelled=text_of("DeepseekV3ForCausalLM", "deepseek_v3", "language_model.")),
    "unlimited-ocr": dict(run=ocr_logits),
    # The class empties the row of the padding token when it has read it.
    "youtu": dict(spelled=lambda config, tensors: (config | dict(pad_token_id=None), tensors)),
}


def deepseek2_header():
    """DeepSeek V3, fewer experts: latent attention, a dense layer before mixtures."""
    h = Header("deepseek2", 7168, 3, 129280, 18432, **RMS, **(heads(128, 1, 576) | {"attention.value_length": 512}),
               **{"attention.q_lora_rank": 1536, "attention.kv_lora_rank": 512, "attention.key_length_mla": 192,
                  "attention.value_length_mla": 128, "rope.dimension_count": 64,
                  "leading_dense_block_count": 1, "expert_count": 16, "expert_used_count": 8,
                  "expert_feed_forward_length": 2048, "expert_shared_count": 1, "expert_weights_scale": 2.5,
                  "expert_weights_norm": True, "expert_gating_func": 2})
    for i in range(3):
        h.norms(i, "attn_norm", "ffn_norm")
        for name, *dims in [("attn_q_a", 7168, 1536), ("attn_q_a_norm", 1536), ("attn_q_b", 1536, 128 * 192),
                            ("attn_kv_a_mqa", 7168, 576), ("attn_kv_a_norm", 512), ("attn_k_b", 128, 512, 128),
                            ("attn_v_b", 512, 128, 128), ("attn_output", 128 * 128, 7168)]:
            h.add(f"blk.{i}.{name}.weight", *dims)
        if i == 0:
            h.mlp(i)
        else:
            h.experts(i, 16, 2048)
            h.add(f"blk.{i}.exp_probs_b.bias", 16)
            h.mlp(i, 2048, "_shexp")
    return h.ends()


MEMORY = {"deepseek2": deepseek2_header}


def v3_tensors():
    every61, first, moe, d = list(range(61)), [0, 1, 2], list(range(3, 61)), 7168
    return ends(d, 129280) + [
        (every61, "attn_q_a.weight", (d, 1536)), (every61, "attn_q_b.weight", (1536, 24576)),
        (every61, "attn_kv_a_mqa.weight", (d, 576)), (every61, "attn_k_b.weight", (128, 512, 128)),
        (every61, "attn_v_b.weight", (512, 128, 128)), (every61, "attn_output.weight", (16384, d)),
        (every61, "attn_q_a_norm.weight", (1536,)), (moe, "ffn_gate_inp.weight", (d, 256)),
            (moe, "exp_probs_b.bias", (256,)),
    ] + ffn(d, 18432, first) + ffn(d, 2048, moe, "_exps", (256,)) + ffn(d, 2048, moe, "_shexp")


SNAPSHOTS = {
    "deepseek-v3.1": ("deepseek2", dict(n_embd=7168, n_ff=18432, n_vocab=129280, n_layer=61, n_head=128, n_head_kv=1,
        n_expert=256), v3_tensors()),
}
