"""Golden recipes of LFM2, by Liquid AI: text, and images in LFM2-VL."""

from headers import RMS, Header
from tiny_models import OLD, POOLING, TEXT, sizes
from tiny_towers import PREPROCESSOR, SIGLIP, scorer, tower, with_biases, with_pillow

CHECKPOINTS = {
    "lfm2": dict(model="lfm2", tokenizer="bpe", config=dict(layer_types=["conv", "full_attention"],
        block_multiple_of=8)),
    "lfm2-old": dict(model="lfm2", tokenizer="bpe", drop=("layer_types", "intermediate_size"),
        config=dict(full_attn_idxs=[1], block_auto_adjust_ff_dim=False), old=dict(OLD, rope_theta=1000000.0,
        block_ff_dim=64, full_attn_idxs=[1], tie_embedding=True)),
    "lfm2moe": dict(model="lfm2_moe", tokenizer="bpe", config=dict(TEXT, num_hidden_layers=4, num_dense_layers=1,
        num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
        layer_types=["conv", "full_attention", "conv", "full_attention"])),
    "lfm2-colbert": dict(model="lfm2", **{"class": "Lfm2Model"}, tokenizer="bpe", dense={"1_Dense": [12, 32]},
        config=dict(layer_types=["conv", "full_attention"], block_multiple_of=8)),
    "lfm2-bidirectional": dict(model="lfm2", **{"class": "Lfm2Model"}, tokenizer="bpe", files=POOLING,
        config=dict(layer_types=["conv", "full_attention"], block_multiple_of=8),
        more=dict(architectures=["Lfm2BidirectionalModel"])),
}

CHECKPOINTS |= {
    "lfm2-masked": dict(CHECKPOINTS["lfm2"], tensor_names=[("model.", "lfm2.")], ahead=True,
        more=dict(architectures=["Lfm2BidirectionalForMaskedLM"])),
    "lfm2moe-old": CHECKPOINTS["lfm2moe"] | dict(old=dict(OLD, rope_theta=1000000.0)),
}



def audio_tokenizer(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    both = {"operator_norm": [h], "ffn_norm": [h], "feed_forward.w1": [f, h], "feed_forward.w2": [h, f], "feed_forward.w3": [f, h]}
    conv = {"conv.conv": [h, 1, 3], "conv.in_proj": [3 * h, h], "conv.out_proj": [h, h]}
    attention = {"self_attn.q_proj": [q, h], "self_attn.k_proj": [k, h], "self_attn.v_proj": [k, h], "self_attn.out_proj": [h, q],
                 "self_attn.q_layernorm": [8], "self_attn.k_layernorm": [8]}
    parts = [both | (conv if i == 0 else attention) for i in range(2)]
    return {"emb.emb.weight": [24, h], "istft.window": [16], "lin.weight": [20, h], "lin.bias": [20],
            "lfm.embed_tokens.weight": [v, h], "lfm.embedding_norm.weight": [h], **{
                f"lfm.layers.{i}.{name}.weight": shape for i in range(2) for name, shape in parts[i].items()}}


CHECKPOINTS |= {
    "lfm2-audio-tokenizer": dict(hand=audio_tokenizer, config=dict(TEXT, architectures=["Lfm25AudioTokenizer"],
        model_type="lfm2", torch_dtype="bfloat16", layer_types=["conv", "full_attention"], conv_L_cache=3, norm_eps=1e-5,
        block_multiple_of=8, block_auto_adjust_ff_dim=False, block_ffn_dim_multiplier=1.0, rope_theta=1000000.0,
        sliding_window=30, output_size=20, tie_embedding=True)),
}

def conformer(config: dict) -> dict:
    """The audio encoder of LFM2-Audio, and parts that generate sound."""
    both = {f"conformer.pre_encode.conv.{i}": shape for i, shape in {0: [4, 1, 3, 3], 2: [4, 1, 3, 3], 3: [4, 4, 1, 1],
        5: [4, 1, 3, 3], 6: [4, 4, 1, 1]}.items()}
    both |= {"conformer.pre_encode.out": [16, 4], "audio_adapter.model.0": [16], "audio_adapter.model.1": [32, 16],
             "audio_adapter.model.3": [32, 32]}
    plain = {"audio_embedding.embedding.weight": [24, 32], "audio_embedding.embedding_norm.weight": [32],
             "audio_embedding.to_logits.weight": [24, 32], "codebook_offsets": "numbers:0x11x22 3 I64",
             "audio_loss_weights": [3], "depth_embeddings.0.embedding.weight": [8, 16], "depth_linear.weight": [48, 32],
             "depthformer.layers.0.norm.weight": [16], "lfm.embed_tokens.weight": [384, 32]}
    for i in range(config["encoder"]["n_layers"]):
        layer = f"conformer.layers.{i}."
        both |= {layer + name: shape for name, shape in {"norm_feed_forward1": [16], "norm_self_att": [16],
            "norm_conv": [16], "norm_feed_forward2": [16], "norm_out": [16], "feed_forward1.linear1": [64, 16],
            "feed_forward1.linear2": [16, 64], "feed_forward2.linear1": [64, 16], "feed_forward2.linear2": [16, 64],
            "self_attn.linear_q": [16, 16], "self_attn.linear_k": [16, 16], "self_attn.linear_v": [16, 16],
            "self_attn.linear_out": [16, 16], "conv.pointwise_conv1": [32, 16, 1], "conv.pointwise_conv2": [16, 16, 1],
            "conv.depthwise_conv": [16, 1, 3], "conv.batch_norm": [16]}.items()}
        plain |= {layer + "self_attn.linear_pos.weight": [16, 16], layer + "self_attn.pos_bias_u": [2, 8],
                  layer + "self_attn.pos_bias_v": [2, 8], layer + "conv.batch_norm.running_mean": [16],
                  layer + "conv.batch_norm.running_var": "near-one 16",
                  layer + "conv.batch_norm.num_batches_tracked": "numbers:7 1 I64"}
    return with_biases(both) | plain


D1_OMNI = dict(architectures=["D1OmniModel"], model_type="d1_omni", torch_dtype="bfloat16", downsample_factor=2,
    head_layers=2, max_length=16384, image_text_length=896, audio_text_length=15360,
    temperatures={"choice": 1.25, "choice:3-5": 1.5, "choice:11+": 0.75, "score": 2, "noul": 0.875},
    text_config=dict(TEXT, model_type="lfm2", num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"],
        conv_L_cache=3, norm_eps=1e-5, intermediate_size=60, block_multiple_of=8, block_ffn_dim_multiplier=1.3,
        block_auto_adjust_ff_dim=False, rope_theta=1000000.0),
    vision_config=dict(SIGLIP, num_hidden_layers=2, patch_size=16, num_patches=16, layer_norm_eps=1e-6,
        model_type="siglip2_vision_model"),
    audio_config=dict(feat_in=8, n_layers=2, d_model=16, n_heads=2, conv_kernel_size=3, ff_expansion_factor=4))


def d1_omni(config: dict) -> dict:
    """An encoder of three layers and a head of two; towers of images and sound."""
    v, h, _, q, k = sizes(config["text_config"])
    f = 56
    plain = {"encoder.embed_tokens.weight": [v, h], "encoder.embedding_norm.weight": [h], "head.type_emb.weight": [3, h],
        "vision.tower.vision_model.embeddings.position_embedding.weight": [16, 16]}
    for i, kind in enumerate(config["text_config"]["layer_types"]):
        own = {"conv.conv": [h, 1, 3], "conv.in_proj": [3 * h, h], "conv.out_proj": [h, h]} if kind == "conv" else {
            "self_attn.q_proj": [q, h], "self_attn.k_proj": [k, h], "self_attn.v_proj": [k, h], "self_attn.out_proj": [h, q],
            "self_attn.q_layernorm": [8], "self_attn.k_layernorm": [8]}
        own |= {"operator_norm": [h], "ffn_norm": [h], "feed_forward.w1": [f, h], "feed_forward.w2": [h, f],
            "feed_forward.w3": [f, h]}
        plain |= {f"encoder.layers.{i}.{name}.weight": shape for name, shape in own.items()}
    both = {"vision.tower.vision_model.embeddings.patch_embedding": [16, 768], "vision.tower.vision_model.post_layernorm": [16],
        "vision.projector.layer_norm": [64], "vision.projector.linear_1": [24, 64], "vision.projector.linear_2": [h, 24],
        "audio.residual.ln": [h], "audio.residual.down": [8, h], "audio.residual.up": [h, 8]}
    for i in range(2):
        layer = f"vision.tower.vision_model.encoder.layers.{i}."
        both |= {f"{layer}layer_norm{n}": [16] for n in (1, 2)} | {f"{layer}self_attn.{x}_proj": [16, 16] for x in ("q", "k", "v",
            "out")} | {layer + "mlp.fc1": [24, 16], layer + "mlp.fc2": [16, 24]}
    sound = {}
    for name, shape in conformer(dict(encoder=config["audio_config"])).items():
        for old, new in (("conformer.", "encoder."), ("audio_adapter.model.0", "adapter.norm"), ("audio_adapter.model.1",
            "adapter.linear_1"), ("audio_adapter.model.3", "adapter.linear_2")):
            if name.startswith(old):
                sound["audio." + name.replace(old, new, 1)] = shape
    return plain | with_biases(both) | scorer("head.") | sound


CHECKPOINTS["d1-omni"] = dict(hand=d1_omni, ahead=True, tokenizer="bpe", vocab_size=384, config=D1_OMNI,
    tokenizer_config=dict(add_bos_token=True))

PROJECTORS = {
    "d1-omni": dict(hand=d1_omni, ahead=True, tokenizer="bpe", vocab_size=384, preprocessor=None,
        near=["a.blk.*.conv_norm.*"], config=D1_OMNI),
    "lfm2audio": dict(hand=conformer, tokenizer="bpe", vocab_size=384, preprocessor=None, no_q8_0=True,
        near=["a.blk.*.conv_norm.*"], config=dict(architectures=["Lfm2AudioForConditionalGeneration"], model_type="lfm2_audio", torch_dtype="bfloat16", codebooks=3,
        encoder=dict(feat_in=8, feat_out=-1, n_layers=7, d_model=16, n_heads=2, conv_kernel_size=3),
        lfm=dict(TEXT, model_type="lfm2", layer_types=["full_attention", "full_attention"]))),
    "lfm2vl": tower("lfm2_vl", "Lfm2VlForConditionalGeneration", dict(model_type="lfm2",
        layer_types=["full_attention"]), dict(hub=[("vision_tower.vision_model.", "vision_tower."),
        ("vision_tower.", "vision_tower.vision_model.")]), vision_config=dict(SIGLIP, patch_size=16, num_patches=16,
        vision_use_head=False), projector_hidden_size=24),
}
PROJECTORS["lfm2vl-bicubic"] = dict(PROJECTORS["lfm2vl"], ahead=True, preprocessor=dict(resample=3))

LOGITS = {"lfm2-bidirectional": dict(by="reference")}


def lfm2_header():
    """LFM2 1.2B: short convolutions and grouped attention."""
    kv = [0, 0, 8, 0]
    h = Header("lfm2", 2048, 4, 65536, 8192, **RMS, **{
        "attention.head_count": 32, "attention.head_count_kv": kv, "shortconv.l_cache": 3, "rope.freq_base": 1e6})
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm")
        if kv[i]:
            h.attention(i, 32, 8, 64, norms=True)
        else:
            h.add(f"blk.{i}.shortconv.conv.weight", 3, 2048)
            h.add(f"blk.{i}.shortconv.in_proj.weight", 2048, 3 * 2048)
            h.add(f"blk.{i}.shortconv.out_proj.weight", 2048, 2048)
        h.mlp(i)
    return h.ends(output=False, norm="token_embd_norm")


MEMORY = {"lfm2": lfm2_header}


def look(model, image, processor):
    from transformers.models.lfm2_vl.image_processing_lfm2_vl import Lfm2VlImageProcessor
    made = with_pillow(Lfm2VlImageProcessor)(return_row_col_info=True, **processor)(image, return_tensors="pt")
    inputs = {key: made[key] for key in ("pixel_values", "spatial_shapes", "pixel_attention_mask")}
    tiles = model.model.get_image_features(**inputs, return_dict=True).pooler_output
    rows, columns = int(made["image_rows"][0]), int(made["image_cols"][0])
    texts = [f"<|img_row_{i // columns + 1}_col_{i % columns + 1}|>" for i in range(rows * columns)] + ["<|img_thumbnail|>"]
    texts = texts if len(tiles) > 1 else [""]
    import torch
    return torch.cat(list(tiles)), [], inputs, ([(text, len(tile)) for text, tile in zip(texts, tiles, strict=True)], "")


LFM2_VISION = dict(SIGLIP, patch_size=16, num_patches=16, vision_use_head=False)
VISION = {
    "lfm2vl": dict(tower("lfm2_vl", "Lfm2VlForConditionalGeneration", dict(model_type="lfm2", num_hidden_layers=2,
        architectures=["Lfm2ForCausalLM"], layer_types=["full_attention", "conv"]), vision_config=LFM2_VISION, projector_hidden_size=24), look=look),
    # As many pixels as two tiles of 512 x 512 have.
    "lfm2vl-tiles": dict(tower("lfm2_vl", "Lfm2VlForConditionalGeneration", dict(model_type="lfm2", num_hidden_layers=2,
        architectures=["Lfm2ForCausalLM"], layer_types=["full_attention", "conv"]), vision_config=LFM2_VISION, projector_hidden_size=24), look=look,
        repeat=(24, 18)),
}
VISION["lfm2vl-bicubic"] = dict(VISION["lfm2vl"], processor=dict(PREPROCESSOR, resample=3))
