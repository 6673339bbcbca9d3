"""Golden recipes of Qwen, by Alibaba: text, and images and audio in Qwen VL, Omni and ASR."""

import json
import shutil

from headers import N_FF, N_HEAD, RMS, ROPE, Header, fused, heads, plain_layer, ssm
from lib import GOLDEN
from logits_own import first_of_equal, text_of
from recipes import dense, ends, every, ffn
from tiny_models import (
    AS_IT_IS, HAND, OLD, POOLING, QWEN35, ROPE3, ROPE35, ROPE_OF_IMAGES, TEXT, few, hub, layers, predictions, sizes,
    text_tensors, tiny, with_tokenizer, wrapper)
from tiny_parts import ENDS, NORMS, attention, mlp, tensors, weights
from tiny_towers import (
    ONE, QWEN25_VISION, QWEN35_VISION, QWEN3_VISION, SHALLOW_WHISPER, grid_look, tower, with_biases)

QWEN2_TOKENIZER = dict(tokenizer_class="Qwen2Tokenizer", eos_token="<|endoftext|>", pad_token="<|endoftext|>",
    bos_token=None, unk_token=None)
NEXT = dict(moe_intermediate_size=12, shared_expert_intermediate_size=20, head_dim=8, linear_num_key_heads=2,
    linear_num_value_heads=4, linear_key_head_dim=4, linear_value_head_dim=6,
    layer_types=["linear_attention", "full_attention"])


def with_mtp(tensors: dict, config) -> dict:
    """A prediction of the token after the next, with the names of Qwen."""
    import torch
    last = config.num_hidden_layers - 1
    more = {name.replace(f"model.layers.{last}.", "mtp.layers.0."): tensor.flip(0).clone()
            for name, tensor in tensors.items() if f"model.layers.{last}." in name}
    more |= {f"mtp.{name}.weight": torch.randn(shape).to(torch.bfloat16) for name, shape in {
        "fc": [16, 32], "pre_fc_norm_embedding": [16], "pre_fc_norm_hidden": [16], "norm": [16]}.items()}
    return tensors | more


def with_turned_experts(tensors: dict, config) -> dict:
    """Stacked experts with rows and columns exchanged."""
    return {name: tensor.transpose(1, 2).contiguous() if ".experts." in name else tensor for name, tensor in tensors.items()}


QWEN2_TOWER = dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, patch_size=4)
QWEN25_TOWER = dict(QWEN25_VISION, depth=1, fullatt_block_indexes=[0])
QWEN3_TOWER = dict(QWEN3_VISION, depth=3)
QWEN35_MOE = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40)
QWEN35_TOWER = dict(QWEN35_VISION, depth=3)
OMNI_TEXT = dict(TEXT, model_type="qwen2_5_omni_text", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1000000.0,
    rope_scaling=dict(rope_type="default", type="default", mrope_section=[2, 1, 1]), use_sliding_window=False,
    sliding_window=256, max_window_layers=2, tie_word_embeddings=False)


def omni(config: dict) -> dict:
    return {"thinker.model.embed_tokens.weight": [384, 32], "thinker.model.norm.weight": [32], "thinker.lm_head.weight": [384, 32],
            "thinker.visual.patch_embed.proj.weight": [16, 3, 2, 4, 4], "thinker.audio_tower.conv1.weight": [16, 8, 3],
            "talker.codec_head.weight": [32, 32], "token2wav.code2wav_bigvgan_model.conv_pre.bias": [8],
            **layers(dict(num_hidden_layers=2), {f"thinker.model.layers.{{}}.{name}": shape for name, shape in {
                "self_attn.q_proj.weight": [32, 32], "self_attn.q_proj.bias": [32], "self_attn.k_proj.weight": [16, 32],
                "self_attn.k_proj.bias": [16], "self_attn.v_proj.weight": [16, 32], "self_attn.v_proj.bias": [16],
                "self_attn.o_proj.weight": [32, 32], "mlp.gate_proj.weight": [48, 32], "mlp.up_proj.weight": [48, 32],
                "mlp.down_proj.weight": [32, 48], "input_layernorm.weight": [32],
                "post_attention_layernorm.weight": [32]}.items()})}


# The id that a byte-level tokenizer gives its first token beside the usual ones.
TURN_END = dict(special=["<|im_end|>"], tokenizer_config=dict(AS_IT_IS["tokenizer_config"],
    added_tokens_decoder={"3": dict(content="<|im_end|>", lstrip=False, normalized=False, rstrip=False,
    single_word=False, special=True)}))
# Sound of Qwen 3 ASR.
ASR_ENCODER = dict(num_mel_bins=8, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=32, d_model=16,
    output_dim=32, downsample_hidden_size=8)


def qwen3omni(config: dict) -> dict:
    each = lambda bid: NORMS | attention(norms=8) | {"mlp.gate.weight": [3, 32]} | {
        name: shape for x in range(3) for name, shape in mlp(f"mlp.experts.{x}", 24).items()}
    text = tensors(2, ENDS, each)
    return {f"thinker.{name}": shape for name, shape in text.items()} | {
        "thinker.visual.patch_embed.proj.weight": [16, 3, 2, 4, 4], "thinker.audio_tower.conv2d1.weight": [8, 1, 3, 3],
        "talker.model.norm.weight": [32], "code2wav.pre_transformer.norm.weight": [32]}


OMNI = dict(HAND, head_dim=8, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True,
    decoder_sparse_step=1, model_type="qwen3_omni_moe_text", rope_scaling=dict(rope_type="default",
    mrope_section=[2, 1, 1], interleaved=True), rope_theta=1000000)
QWEN4 = dict(HAND, **QWEN35_MOE, model_type="qwen4_exp_text", head_dim=8, num_hidden_layers=2, norm_topk_prob=True,
    linear_key_head_dim=4, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=6,
    linear_conv_kernel_dim=4, layer_types=["linear_attention", "full_attention"], full_attention_interval=2,
    rope_parameters=ROPE35, hc_count=2, hc_lowrank=8, ple_layer_ids=[1], ple_embed_dim=16, ple_conv_kernel_size=4,
    ngram_size=3, heads_per_ngram=2, split_ngram_parts=12, indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=8,
    indexer_budget=8, indexer_compress_ratio=4, eos_token_id=[1, 2])


def qwen4exp(config: dict) -> dict:
    stream = lambda name, inject: weights(**{f"{name}.hc_norm": [64], f"{name}.input_mix_weight_down": [8, 64],
        f"{name}.input_mix_weight_up": [64, 8], **({f"{name}.block_inject_weight": [2, 64]} if inject else {})})
    d = config["text_config"]["linear_value_head_dim"]
    linear = weights(**{f"linear_attn__{name}": shape for name, shape in dict(in_proj_qkv=[16 + 6 * d, 32],
        in_proj_z=[6 * d, 32], in_proj_b=[6, 32], in_proj_a=[6, 32], conv1d=[16 + 6 * d, 1, 4], norm=[d],
        out_proj=[32, 6 * d]).items()}) | {
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
    mtp = {}
    if config.get("text_config", {}).get("mtp_num_hidden_layers"):
        mtp = {f"mtp.{name}": shape for name, shape in (weights(fc_embedding=[32, 32], fc_hidden=[32, 32],
            pre_fc_norm_embedding=[32], pre_fc_norm_hidden=[64]) | stream("hyper_connection_mixer", False)).items()}
        mtp |= {f"mtp.layers.0.{name}": shape for name, shape in each(1).items()}
    return {name.replace("model.", "model.language_model.", 1): shape for name, shape in text.items()} | {
        "model.visual.blocks.0.norm1.weight": [16]} | mtp


def tiktoken(folder):
    from tokenizer import Tiktoken
    return Tiktoken(folder)


def qwen(config: dict) -> dict:
    v, h, f, _, _ = sizes(config)
    layer = {"ln_1.weight": [h], "attn.c_attn.weight": [3 * h, h], "attn.c_attn.bias": [3 * h], "attn.c_proj.weight": [h, h],
             "ln_2.weight": [h], "mlp.w1.weight": [f // 2, h], "mlp.w2.weight": [f // 2, h], "mlp.c_proj.weight": [h, f // 2]}
    return {"transformer.wte.weight": [v, h], "transformer.ln_f.weight": [h], "lm_head.weight": [v, h],
            **layers(config, {f"transformer.h.{{}}.{name}": shape for name, shape in layer.items()})}


INTERLEAVED = dict(torch_dtype="bfloat16", rope_theta=5000000, rope_scaling=dict(ROPE_OF_IMAGES,
    mrope_interleaved=True))

# The reference lacks later classes, but supports their text parts as this one.
MINICPMV46 = dict(reference=dict(set=dict(architectures=["MiniCPMV4_6ForConditionalGeneration"], model_type="minicpmv4_6")))


def minicpmv(model: str, name: str, more: dict = {}, **own) -> dict:
    return wrapper(model, name, dict(QWEN35, model_type="qwen3_5_text", rope_parameters=ROPE35), vision_config=dict(
        hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4),
        more=AS_IT_IS | more, **own)


def qianfan_text(tensors: dict, config) -> dict:
    """The layers have the name of the tower as transformers saves them."""
    return text_tensors({name.replace("model.encoder.", "model."): tensor for name, tensor in tensors.items()}, config)


CHECKPOINTS = {
    "qwen2": tiny(model="qwen2", tokenizer="bpe"),
    "qwen2-tied-old": tiny(model="qwen2", tokenizer="bpe", special=["<|endoftext|>"], tokenizer_config=QWEN2_TOKENIZER,
        config=dict(tie_word_embeddings=True), drop=("layer_types",), old=dict(OLD, rope_theta=1000000.0,
        use_sliding_window=False, sliding_window=32768)),
    "qwen3": tiny(model="qwen3", tokenizer="bpe", config=dict(head_dim=8, tie_word_embeddings=True)),
    "qwen2-embedding-old": tiny(model="qwen2", tokenizer="bpe", special=["<|endoftext|>"],
        tokenizer_config=QWEN2_TOKENIZER, files=POOLING, **{"class": "Qwen2Model"}, drop=("layer_types",),
        old=dict(OLD, rope_theta=1000000.0, use_sliding_window=False, sliding_window=131072)),
    "qwen3-embedding": tiny(model="qwen3", tokenizer="bpe", config=dict(head_dim=8, tie_word_embeddings=True),
        files=POOLING),
    "qwen3-yarn-old": tiny(model="qwen3", tokenizer="bpe", config=dict(head_dim=8), drop=("layer_types",),
        old=dict(OLD, rope_theta=1000000, sliding_window=None, rope_scaling=dict(rope_type="yarn", factor=4.0,
        original_max_position_embeddings=32768))),
    "qwen2moe": dict(model="qwen2_moe", tokenizer="bpe", config=few(moe_intermediate_size=12,
        shared_expert_intermediate_size=20)),
    # 12 experts, so that 10 comes after 9.
    "qwen2moe-old": dict(model="qwen2_moe", tokenizer="bpe", drop=("layer_types",),
        config=dict(few(moe_intermediate_size=4, shared_expert_intermediate_size=8), num_experts=12), old=dict(OLD,
        rope_theta=1000000.0, use_sliding_window=False, sliding_window=32768)),
    "qwen2moe-stacked": dict(model="qwen2_moe", tokenizer="bpe", stacked=True, config=few(moe_intermediate_size=12,
        shared_expert_intermediate_size=20, tie_word_embeddings=True)),
    "qwen3moe": dict(model="qwen3_moe", tokenizer="bpe", config=few(moe_intermediate_size=12, head_dim=8)),
    "qwen3moe-old": dict(model="qwen3_moe", tokenizer="bpe", config=few(moe_intermediate_size=12, head_dim=8),
        old=dict(OLD, rope_theta=1000000.0, rope_scaling=None, sliding_window=None)),
    "qwen3moe-stacked": dict(model="qwen3_moe", tokenizer="bpe", stacked=True, config=few(moe_intermediate_size=12,
        head_dim=8)),
    "qwen3next": dict(model="qwen3_next", tokenizer="bpe", config=few(**NEXT)),
    "qwen3next-old": dict(model="qwen3_next", tokenizer="bpe", extra=with_mtp, config=few(**NEXT),
        drop=("layer_types",), old=dict(OLD, rope_theta=10000000, rope_scaling=None, partial_rotary_factor=0.25,
        full_attention_interval=2)),
    "qwen3.5": wrapper("qwen3_5", "Qwen3_5ForConditionalGeneration", dict(QWEN35, rope_parameters=ROPE35),
        vision_config=QWEN35_TOWER, more=AS_IT_IS),
    # One value head to a key head, no sections; what a fine-tune of the text part is saved as.
    "qwen3.5-text": dict(model="qwen3_5_text", **{"class": "Qwen3_5ForCausalLM"}, tokenizer="bpe", config=dict(QWEN35,
        linear_num_value_heads=2)),
    # The inner class of the text part, without an output.
    "qwen3.5-inner": dict(ahead=True, model="qwen3_5_text", **{"class": "Qwen3_5TextModel"}, tokenizer="bpe", files=POOLING,
        config=dict(QWEN35, rope_parameters=ROPE35)),
    "qwen3.5-embedding": dict(ahead=True, model="qwen3_5_text", **{"class": "Qwen3_5ForCausalLM"}, tokenizer="bpe",
        files={"embedding_config.json": dict(pooling="last_token")}, config=dict(QWEN35, rope_parameters=ROPE35,
        linear_value_head_dim=4)),
    "qwen3.5moe": wrapper("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", dict(QWEN35, **QWEN35_MOE,
        rope_parameters=ROPE35), vision_config=QWEN35_TOWER, more=AS_IT_IS),
    "qwen2vl": wrapper("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3),
        vision_config=QWEN2_TOWER),
    # The Hub's spelling: keys of the text part beside the others, names without `language_model.`.
    "qwen2vl-old": wrapper("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3),
        vision_config=QWEN2_TOWER, more=dict(drop=("text_config",), old=dict(OLD, **TEXT, hidden_act="silu",
        rms_norm_eps=1e-06, sliding_window=256, use_sliding_window=False, max_window_layers=2, rope_theta=1000000.0,
        tie_word_embeddings=False, rope_scaling=dict(type="mrope", mrope_section=[2, 1, 1])),
        tensor_names=[("model.language_model.", "model."), ("model.visual.", "visual.")])),
    "qwen2.5vl": wrapper("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", dict(rope_parameters=ROPE3),
        vision_config=QWEN25_TOWER),
    "qwen3vl": wrapper("qwen3_vl", "Qwen3VLForConditionalGeneration", dict(head_dim=8, rope_parameters=dict(ROPE3,
        mrope_interleaved=True)), vision_config=QWEN3_TOWER),
    "qwen3vlmoe": wrapper("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", dict(head_dim=8, num_experts=3,
        num_experts_per_tok=2, moe_intermediate_size=24, rope_parameters=dict(ROPE3, mrope_interleaved=True)),
        vision_config=QWEN3_TOWER, more=dict(given_as=with_turned_experts)),
    # The Hub's experts are (experts, in, out), which the reference takes all for; transformers 5 saves (experts, out, in).
    "qwen3vlmoe-old": wrapper("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", dict(head_dim=8, num_experts=3,
        num_experts_per_tok=2, moe_intermediate_size=24, rope_parameters=dict(ROPE3, mrope_interleaved=True)),
        vision_config=QWEN3_TOWER, more=dict(extra=with_turned_experts)),
    "musicflamingo": wrapper("musicflamingo", "MusicFlamingoForConditionalGeneration", dict(model_type="qwen2"),
        audio_config=dict(SHALLOW_WHISPER, model_type="audioflamingo3_encoder"), more=dict(reference=dict(drop=("head_dim",), set=dict(
        architectures=["AudioFlamingo3ForConditionalGeneration"], model_type="audioflamingo3")))),
    "qwen2audio": wrapper("qwen2_audio", "Qwen2AudioForConditionalGeneration", dict(model_type="qwen2"),
        audio_config=SHALLOW_WHISPER),
    "qwen2.5omni": dict(hand=omni, tokenizer="bpe", config=dict(architectures=["Qwen2_5OmniModel"],
        model_type="qwen2_5_omni", torch_dtype="bfloat16", vocab_size=384,
        thinker_config=dict(model_type="qwen2_5_omni_thinker", text_config=OMNI_TEXT), talker_config={},
        token2wav_config={})),
    # Known by the name of the folder; the tokens whose rows are taken are there.
    "qwen3-reranker": dict(model="qwen3", tokenizer="bpe", special=["yes", "no"], config=dict(head_dim=8,
        tie_word_embeddings=True)),
    "qwen3-reranker-untied": dict(model="qwen3", tokenizer="bpe", special=["yes", "no"], config=dict(head_dim=8)),
    "qwen3asr": wrapper("qwen3_asr", "Qwen3ASRForConditionalGeneration", dict(model_type="qwen3", head_dim=8),
        audio_config=ASR_ENCODER, more=TURN_END),
    "qwen3omni": dict(hand=qwen3omni, tokenizer="bpe", **TURN_END,
        config=dict(architectures=["Qwen3OmniMoeForConditionalGeneration"], model_type="qwen3_omni_moe",
        thinker_config=dict(text_config=OMNI, vision_config=dict(deepstack_visual_indexes=[0])),
        enable_audio_output=True), vocab_size=384),
    "minicpmv4.6": minicpmv("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", insert_layer_id=1),
    "qianfan-ocr": wrapper("qianfan_ocr", "QianfanOCRForConditionalGeneration", dict(model_type="qwen3", head_dim=8),
        vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=[16, 16],
        patch_size=[4, 4]), more=dict(AS_IT_IS, given_as=qianfan_text, reference=dict(set=dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3")))),
    "minicpmv4.7": minicpmv("minicpmv4_7", "MiniCPMV4_7ForConditionalGeneration", MINICPMV46, insert_layer_id=1),
    "minicpm-ocr": minicpmv("minicpm_ocr", "MiniCPMOcrForConditionalGeneration", MINICPMV46),
    "qwen4exp": dict(hand=qwen4exp, tokenizer="bpe", special=["<|endoftext|>", "<|user|>"], raw_config=True,
        config=dict(architectures=["Qwen4ExpForConditionalGeneration"], model_type="qwen4_exp", image_token_id=9,
        text_config=QWEN4)),
    "qwen4exp-mtp": dict(ahead=True, hand=qwen4exp, tokenizer="bpe", special=["<|endoftext|>", "<|user|>"], raw_config=True,
        config=dict(architectures=["Qwen4ExpForConditionalGeneration"], model_type="qwen4_exp", image_token_id=9,
        text_config=dict(QWEN4, linear_value_head_dim=4, mtp_num_hidden_layers=1))),
    "qwen": dict(hand=qwen, tokenizer="qwen_tiktoken", patches=with_tokenizer(tiktoken),
        remove=("num_key_value_heads", "bos_token_id", "eos_token_id", "pad_token_id"), config=hub("QWenLMHeadModel",
        "qwen", vocab_size=520, num_key_value_heads=4, kv_channels=8, layer_norm_epsilon=1e-6, no_bias=True,
        rotary_emb_base=10000, rotary_pct=1.0, seq_length=2048, tie_word_embeddings=False, use_dynamic_ntk=True,
        use_logn_attn=True, scale_attn_weights=True, tokenizer_class="QWenTokenizer")),
}

CHECKPOINTS |= {
    "qwen3-vl-reranker": dict(CHECKPOINTS["qwen3vl"], special=["yes", "no"]),
    "qwen3vl-old": CHECKPOINTS["qwen3vl"] | dict(old_text=INTERLEAVED),
}

CHECKPOINTS |= predictions("qwen3next-old", CHECKPOINTS["qwen3next-old"])
CHECKPOINTS |= predictions("qwen4exp-mtp", CHECKPOINTS["qwen4exp-mtp"])


def make_qwen_tiktoken(folder, vocab_size: int, spec: dict) -> None:
    shutil.copy(GOLDEN / "tokenizer" / "tiktoken-qwen" / "qwen.tiktoken", folder)
    config = dict(model_max_length=8192, tokenizer_class="QWenTokenizer",
        auto_map=dict(AutoTokenizer=["tokenization_qwen.QWenTokenizer", None]))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


TOKENIZERS = {"qwen_tiktoken": make_qwen_tiktoken}

QWEN2_VISION = dict(QWEN2_TOWER, depth=3)
TO_QWEN = dict(hub=[("model.visual.", "visual.")])



def prefixed(prefix: str, shapes: dict) -> dict:
    return {prefix + name: shape for name, shape in shapes.items()}


def sound_tower(layers_of: int, k_bias: bool, more: dict) -> dict:
    """The audio encoder of Omni and ASR: Whisper's layers with a width of 16."""
    names = {f"layers.{i}.{name}": shape for i in range(layers_of) for name, shape in {
        "self_attn.q_proj": [16, 16], "self_attn.v_proj": [16, 16], "self_attn.out_proj": [16, 16],
        "self_attn_layer_norm": [16], "final_layer_norm": [16], "fc1": [32, 16], "fc2": [16, 32],
        **({"self_attn.k_proj": [16, 16]} if k_bias else {})}.items()}
    plain = {} if k_bias else {f"layers.{i}.self_attn.k_proj.weight": [16, 16] for i in range(layers_of)}
    return with_biases(names | {"ln_post": [16]}) | plain | more


CONV2D = with_biases({"conv2d1": [8, 1, 3, 3], "conv2d2": [8, 8, 3, 3], "conv2d3": [8, 8, 3, 3]}) | {
    "conv_out.weight": [16, 8]}
TWO_OF_SOUND = with_biases({"proj1": [16, 16], "proj2": [32, 16]})
SOUND = dict(ASR_ENCODER, encoder_layers=4)


def omni25_towers(config: dict) -> dict:
    layer = {"norm1.weight": [16], "norm2.weight": [16], **with_biases({"attn.q": [16, 16], "attn.k": [16, 16],
        "attn.v": [16, 16], "attn.proj": [16, 16], "mlp.gate_proj": [24, 16], "mlp.up_proj": [24, 16],
        "mlp.down_proj": [16, 24]})}
    visual = {"patch_embed.proj.weight": [16, 3, 2, 4, 4], "merger.ln_q.weight": [16], **with_biases({
        "merger.mlp.0": [64, 64], "merger.mlp.2": [32, 64]}),
        **{f"blocks.{i}.{name}": shape for i in range(2) for name, shape in layer.items()}}
    sound = sound_tower(2, False, with_biases({"conv1": [16, 8, 3], "conv2": [16, 16, 3], "proj": [32, 16]}) | {
        "audio_bos_eos_token.weight": [2, 32]})
    return prefixed("thinker.audio_tower.", sound) | {"thinker.model.norm.weight": [32]} | prefixed(
        "thinker.visual.", visual) | {"talker.codec_head.weight": [32, 32]}


def omni3_towers(config: dict) -> dict:
    layer = with_biases({"norm1": [16], "norm2": [16], "attn.qkv": [48, 16], "attn.proj": [16, 16],
        "mlp.linear_fc1": [24, 16], "mlp.linear_fc2": [16, 24]})
    visual = {**with_biases({"patch_embed.proj": [16, 3, 2, 4, 4], "merger.ln_q": [16], "merger.mlp.0": [64, 64],
        "merger.mlp.2": [32, 64], "merger_list.0.ln_q": [64], "merger_list.0.mlp.0": [64, 64],
        "merger_list.0.mlp.2": [32, 64]}), "pos_embed.weight": [16, 16],
        **{f"blocks.{i}.{name}": shape for i in range(2) for name, shape in layer.items()}}
    return prefixed("thinker.audio_tower.", sound_tower(2, True, CONV2D | TWO_OF_SOUND)) | prefixed(
        "thinker.visual.", visual) | {"thinker.model.norm.weight": [32], "talker.model.norm.weight": [32]}


def asr_tower(config: dict) -> dict:
    return prefixed("thinker.audio_tower.", sound_tower(4, True, CONV2D | TWO_OF_SOUND)) | {
        "thinker.model.norm.weight": [32]}


POSITIONS = dict(near=["a.position_embd.weight"], tokenizer="bpe", vocab_size=384)
ASR_THINKER = dict(audio_config=SOUND, text_config=dict(TEXT, model_type="qwen3", head_dim=8))

def speaker(config: dict) -> dict:
    """The encoder of a speaker and the predictor of codes of Qwen 3 TTS."""
    ear, codes = "speaker_encoder.", "talker.code_predictor."
    both = {ear + "blocks.0.conv": [12, 8, 5], ear + "mfa.conv": [24, 36, 1], ear + "asp.tdnn.conv": [8, 72, 1],
            ear + "asp.conv": [24, 8, 1], ear + "fc": [32, 48, 1], codes + "small_to_mtp_projection": [16, 32]}
    for i in range(1, 4):
        both |= {f"{ear}blocks.{i}.{name}": shape for name, shape in {"tdnn1.conv": [12, 12, 1], "tdnn2.conv": [12, 12, 1],
            "se_block.conv1": [4, 12, 1], "se_block.conv2": [12, 4, 1], "res2net_block.blocks.0.conv": [4, 4, 3],
            "res2net_block.blocks.1.conv": [4, 4, 3]}.items()}
    plain = {f"{codes}lm_head.{i}.weight": [10, 16] for i in range(15)} | {
        f"{codes}model.codec_embedding.{i}.weight": [10, 32] for i in range(15)} | {
        codes + "model.norm.weight": [16], "talker.model.codec_embedding.weight": [20, 32],
        "talker.model.norm.weight": [32], "talker.codec_head.weight": [20, 32]}
    layer = {"input_layernorm": [16], "post_attention_layernorm": [16], "self_attn.q_norm": [8], "self_attn.k_norm": [8],
        "self_attn.q_proj": [16, 16], "self_attn.k_proj": [8, 16], "self_attn.v_proj": [8, 16], "self_attn.o_proj": [16, 16],
        "mlp.gate_proj": [24, 16], "mlp.up_proj": [24, 16], "mlp.down_proj": [16, 24]}
    plain |= {f"{codes}model.layers.{i}.{name}.weight": shape for i in range(5) for name, shape in layer.items()}
    return with_biases(both) | plain


def speech_tokenizer() -> dict:
    """The decoder from codes to sound, and a part of the encoder."""
    both = {"decoder.pre_conv.conv": [16, 8, 3], "decoder.pre_transformer.input_proj": [16, 16],
            "decoder.pre_transformer.output_proj": [16, 16], "decoder.decoder.0.conv": [16, 16, 7],
            "decoder.decoder.6.conv": [1, 1, 7]}
    plain = {"decoder.pre_transformer.norm.weight": [16], "decoder.decoder.5.alpha": [1], "decoder.decoder.5.beta": [1],
             "encoder.encoder.layers.0.conv.weight": [4, 1, 7]}
    for name, n in (("first", 1), ("rest", 15)):
        plain |= {f"decoder.quantizer.rvq_{name}.input_proj.weight": [4, 8, 1],
                  f"decoder.quantizer.rvq_{name}.output_proj.weight": [8, 4, 1]}
        for i in range(n):
            book = f"decoder.quantizer.rvq_{name}.vq.layers.{i}._codebook."
            plain |= {book + "embedding_sum": [6, 4], book + "cluster_usage": "near-one 6", book + "initialized": [1]}
    layer = {"input_layernorm.weight": [16], "post_attention_layernorm.weight": [16], "self_attn_layer_scale.scale": [16],
        "mlp_layer_scale.scale": [16], **{f"self_attn.{x}_proj.weight": [16, 16] for x in "qkvo"},
        "mlp.gate_proj.weight": [24, 16], "mlp.up_proj.weight": [24, 16], "mlp.down_proj.weight": [16, 24]}
    plain |= {f"decoder.pre_transformer.layers.{i}.{name}": shape for i in range(2) for name, shape in layer.items()}
    for i in range(2):
        both |= {f"decoder.upsample.{i}.{name}": shape for name, shape in {"0.conv": [16, 16, 2], "1.dwconv.conv": [16, 1, 7],
            "1.norm": [16], "1.pwconv1": [32, 16], "1.pwconv2": [16, 32]}.items()}
        plain[f"decoder.upsample.{i}.1.gamma"] = [16]
    for i, width in enumerate((16, 8, 4, 2), 1):
        block, half = f"decoder.decoder.{i}.block.", width // 2
        plain |= {block + "0.alpha": [width], block + "0.beta": [width]}
        both[block + "1.conv"] = [width, half, 4]
        for j in (2, 3, 4):
            plain |= {f"{block}{j}.act{n}.{x}": [half] for n in (1, 2) for x in ("alpha", "beta")}
            both |= {f"{block}{j}.conv1.conv": [half, half, 7], f"{block}{j}.conv2.conv": [half, half, 1]}
    # In single precision, as the Hub's.
    as_text = lambda shape: shape if isinstance(shape, str) else "normal " + "x".join(map(str, shape))
    return {name: as_text(shape) + " F32" for name, shape in (with_biases(both) | plain).items()}


PROJECTORS = {
    "qwen3tts": dict(hand=speaker, tokenizer="bpe", vocab_size=384, preprocessor=None, raw_config=True, no_q8_0=True,
        parts=dict(speech_tokenizer=speech_tokenizer()), near=["a.gen.wav.dac.*.alpha", "a.gen.wav.dac.*.beta"],
        files={"speech_tokenizer/config.json": dict(decoder_config=dict(num_hidden_layers=2, upsampling_ratios=[2, 2],
        upsample_rates=[8, 5, 4, 3]))}, config=dict(architectures=["Qwen3TTSForConditionalGeneration"],
        model_type="qwen3_tts", torch_dtype="bfloat16", speaker_encoder_config=dict(enc_dim=32, sample_rate=24000),
        talker_config=dict(hidden_size=32, vocab_size=20, text_vocab_size=384, code_predictor_config=dict(hidden_size=16,
        intermediate_size=24, num_hidden_layers=5, num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-6)))),
    "qwen2.5omni": dict(POSITIONS, hand=omni25_towers, config=dict(architectures=["Qwen2_5OmniModel"],
        model_type="qwen2_5_omni", torch_dtype="bfloat16", talker_config={}, token2wav_config={},
        thinker_config=dict(model_type="qwen2_5_omni_thinker", text_config=OMNI_TEXT,
        vision_config=dict(QWEN25_VISION, depth=2, fullatt_block_indexes=[1]),
        audio_config=dict(SOUND, encoder_layers=2)))),
    # The reference expects vision names without `thinker.`, which checkpoints do not have.
    "qwen3omni": dict(POSITIONS, hand=omni3_towers, hub=[("thinker.visual.", "visual.")], config=dict(architectures=["Qwen3OmniMoeForConditionalGeneration"],
        model_type="qwen3_omni_moe", enable_audio_output=True, thinker_config=dict(text_config=OMNI,
        vision_config=dict(QWEN3_VISION, depth=2, deepstack_visual_indexes=[1]),
        audio_config=dict(SOUND, encoder_layers=2)))),
    # The Hub's form, which the reference reads, and that of transformers.
    "qwen3asr-old": dict(POSITIONS, hand=asr_tower, preprocessor=None, raw_config=True,
        config=dict(architectures=["Qwen3ASRForConditionalGeneration"], model_type="qwen3_asr",
        thinker_config=ASR_THINKER)),
    "qwen3asr": tower("qwen3_asr", "Qwen3ASRForConditionalGeneration", dict(model_type="qwen3", head_dim=8),
        dict(near=["a.position_embd.weight"], preprocessor=None, hub_config=dict(thinker_config=ASR_THINKER),
        hub=[("model.audio_tower.", "thinker.audio_tower."),
        ("model.multi_modal_projector.linear_", "thinker.audio_tower.proj")]), audio_config=SOUND),
    "qwen3vl": tower("qwen3_vl", "Qwen3VLForConditionalGeneration", dict(head_dim=8, rope_parameters=dict(ROPE3,
        mrope_interleaved=True), rms_norm_eps=1e-5), vision_config=QWEN3_VISION),
    "qwen3vlmoe": tower("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", dict(head_dim=8, num_experts=2,
        num_experts_per_tok=1, moe_intermediate_size=24, rope_parameters=dict(ROPE3, mrope_interleaved=True)),
        vision_config=QWEN3_VISION),
    "qwen3.5moe": tower("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", dict(head_dim=8, num_experts=2,
        num_experts_per_tok=1), AS_IT_IS, vision_config=QWEN35_VISION),
    "qwen3.5": tower("qwen3_5", "Qwen3_5ForConditionalGeneration", dict(head_dim=8), AS_IT_IS,
        vision_config=QWEN35_VISION),
    "qwen2vl": tower("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3), TO_QWEN,
        vision_config=QWEN2_VISION),
    # The Hub's spelling: keys of the text part beside the others.
    "qwen2vl-old": tower("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3),
        dict(drop=("text_config",), old=dict(ONE, hidden_act="silu", rms_norm_eps=3e-06, sliding_window=256,
        use_sliding_window=False, max_window_layers=2, rope_theta=1000000.0, tie_word_embeddings=False,
        rope_scaling=dict(type="mrope", mrope_section=[2, 1, 1]), torch_dtype="bfloat16",
        transformers_version="4.43.0"), tensor_names=[("model.language_model.", "model."),
        ("model.visual.", "visual.")]), vision_config=QWEN2_VISION),
    "qwen2.5vl": tower("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", dict(rope_parameters=ROPE3), TO_QWEN,
        vision_config=QWEN25_VISION),
    "qwen4exp": tower("qwen4_exp", "Qwen4ExpForConditionalGeneration", dict(head_dim=8, num_experts=2,
        num_experts_per_tok=1), AS_IT_IS, vision_config=QWEN35_VISION),
}


# Two frames of a patch of 4 and squares of 2 x 2: 64 pixels to an embedding, of which mtmd takes 8 to 4096.
LOOK = grid_look("qwen2_vl.image_processing_pil_qwen2_vl", "Qwen2VLImageProcessorPil",
    dict(shortest_edge=8 * 64, longest_edge=4096 * 64), temporal_patch_size=2)
VISION = {
    # llama.cpp does not read the epsilon of the text part.
    "qwen2vl": dict(tower("qwen2_vl", "Qwen2VLForConditionalGeneration", dict(rope_parameters=ROPE3,
        num_hidden_layers=2, rms_norm_eps=1e-12), vision_config=QWEN2_VISION), **LOOK),
    # More than one window of 112 pixels across.
    "qwen2.5vl": dict(tower("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", dict(rope_parameters=ROPE3,
        num_hidden_layers=2, rms_norm_eps=1e-12), vision_config=QWEN25_VISION), **LOOK, repeat=(3, 4)),
    "qwen3vl": dict(tower("qwen3_vl", "Qwen3VLForConditionalGeneration", dict(head_dim=8, num_hidden_layers=4,
        rope_parameters=dict(ROPE3, mrope_interleaved=True), rms_norm_eps=1e-6), vision_config=QWEN3_VISION), **LOOK),
    "qwen3.5": dict(tower("qwen3_5", "Qwen3_5ForConditionalGeneration", dict(QWEN35, rope_parameters=ROPE35), AS_IT_IS,
        vision_config=QWEN35_VISION), **LOOK),
}


def asr_bands(config):
    import transformers
    return transformers.Qwen3ASRFeatureExtractor(feature_size=config.num_mel_bins)


def asr_hear(extractor, wave):
    """The processor of Qwen 3 ASR: 13 embeddings of each second."""
    made = extractor([wave], sampling_rate=16000, padding=True, return_attention_mask=True, n_window=50)
    n = int(made["attention_mask"].sum())
    rest = n % 100
    for _ in range(3):
        rest = (rest + 1) // 2
    return dict(input_features=made["input_features"], input_features_mask=made["attention_mask"]), [n // 100 * 13 + rest]


ASR_SOUND = dict(d_model=8, encoder_layers=4, encoder_attention_heads=2, encoder_ffn_dim=16, num_mel_bins=8,
    downsample_hidden_size=4, output_dim=32)
AUDIO = {
    # 9.2 seconds: rows of more than 8 seconds do not all see each other.
    "qwen3asr": dict(tower("qwen3_asr", "Qwen3ASRForConditionalGeneration", dict(model_type="qwen3", head_dim=8,
        num_hidden_layers=2), audio_config=ASR_SOUND), hear=asr_hear, extractor=asr_bands, n_samples=147000),
}
WIDE = {
    "qwen2": {},
    "qwen3": dict(head_dim=64),
    "qwen3moe": dict(head_dim=64, moe_intermediate_size=256),
    "qwen2moe": dict(moe_intermediate_size=256, shared_expert_intermediate_size=256),
    "qwen3next": dict(moe_intermediate_size=256, shared_expert_intermediate_size=256, head_dim=64,
        linear_key_head_dim=32, linear_value_head_dim=64),
}


def reranker_rows(folder, tokens):
    """Qwen 3 with the probabilities of its tokens "yes" and "no" behind the last token."""
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    words = transformers.AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(["yes", "no"])
    rows = model.model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
    return rows.numpy(), True, model.lm_head(rows[-1])[words].softmax(-1).numpy()


def vl_reranker_rows(folder, tokens):
    """The same for Qwen 3 VL, with text only."""
    import torch
    import transformers
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    words = transformers.AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(["yes", "no"])
    rows = model.model(input_ids=torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
    return rows.numpy(), True, model.lm_head(rows[-1])[words].softmax(-1).numpy()


def thinker(config, tensors):
    """The text part of Qwen 3 Omni."""
    return text_of("Qwen3MoeForCausalLM", "qwen3_moe", "thinker.")(config["thinker_config"], {
        name.replace("thinker.lm_head", "lm_head"): tensor for name, tensor in tensors.items()})


NORMED = dict(config=dict(norm_topk_prob=True))
LOGITS = {
    "qwen2.5omni": dict(by="reference"),
    "qwen3asr": dict(spelled=text_of("Qwen3ForCausalLM", "qwen3", "model.language_model.")),
    "qwen3omni": dict(spelled=thinker),
    "qwen3-vl-reranker": dict(run=vl_reranker_rows),
    # A table of as few rows as the checkpoint has, the gate of published models, and the end that the converter takes.
    "qwen4exp": dict(spelled=text_of("Qwen4ExpForCausalLM", "qwen4_exp_text", "model.language_model.",
        ngram_vocab_size_base=2, make_ngram_vocab_size_divisible_by=50, output_gate_type="sigmoid", eos_token_id=2),
        prepare=first_of_equal),
    # Without an epsilon in norms.
    "qwen2.5vl": dict(by="reference"),
    "musicflamingo": dict(spelled=text_of("Qwen2ForCausalLM", "qwen2", "language_model.")),
    "qwen2audio": dict(spelled=text_of("Qwen2ForCausalLM", "qwen2", "language_model.")),
    "qwen3moe": NORMED,
    "qwen3moe-old": NORMED,
    "qwen3moe-stacked": NORMED,
    "qwen3-reranker": dict(run=reranker_rows),
    "qwen3-reranker-untied": dict(run=reranker_rows),
}
LOGITS_FILES = {
    "qwen": (fused(plain_layer(N_HEAD, N_FF // 2)), ROPE | {"attention.head_count_kv": N_HEAD}),
    "qwen2vl": (plain_layer(bias=True), ROPE | {"rope.dimension_sections": [1, 1, 0, 0]}),
}
TOWER_TYPES = {"minicpm_ocr", "minicpmv4_6", "minicpmv4_7", "qianfan_ocr", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"}
RECORDS = {"qwen2": None, "qwen3": None}


def qwen3next_header():
    """Qwen 3 Next, fewer experts: delta nets in three of four layers, gated attention in the fourth."""
    h = Header("qwen3next", 2048, 4, 151936, 5120, **RMS, **heads(16, 2, 256), **ssm(4096, 128, 32, 16),
               **{"expert_count": 64, "expert_used_count": 10, "expert_feed_forward_length": 512,
                  "expert_shared_feed_forward_length": 512, "rope.dimension_count": 64, "rope.freq_base": 1e7})
    for i in range(4):
        h.norms(i, "attn_norm", "post_attention_norm")
        if i == 3:
            h.attention(i, 16, 2, 256, norms=True, gated=True)
        else:
            for name, *dims in [("attn_qkv.weight", 2048, 8192), ("attn_gate.weight", 2048, 4096),
                                ("ssm_conv1d.weight", 4, 8192), ("ssm_dt.bias", 32), ("ssm_a", 32),
                                ("ssm_ba.weight", 2048, 64), ("ssm_norm.weight", 128), ("ssm_out.weight", 4096, 2048)]:
                h.add(f"blk.{i}.{name}", *dims)
        h.experts(i, 64, 512)
        h.add(f"blk.{i}.ffn_gate_inp_shexp.weight", 2048)
        h.mlp(i, 512, "_shexp")
    return h.ends()


MEMORY = {"qwen3next": qwen3next_header}


def delta_net_tensors(n_embd, n_layer, q, kv, out, qkv, n_v_heads, fused):
    """Every fourth layer is attention, with a gate in its queries; the others are a gated delta net."""
    full, linear = every(n_layer, 4, True), every(n_layer, 4, False)
    rates = [("ssm_ba.weight", 2 * n_v_heads)] if fused else [("ssm_alpha.weight", n_v_heads),
        ("ssm_beta.weight", n_v_heads)]
    return [
        (full, "attn_q.weight", (n_embd, 2 * q)), (full, "attn_k.weight", (n_embd, kv)),
        (full, "attn_v.weight", (n_embd, kv)), (full, "attn_output.weight", (q, n_embd)),
        (linear, "attn_qkv.weight", (n_embd, qkv)), (linear, "attn_gate.weight", (n_embd, out)),
        (linear, "ssm_conv1d.weight", (4, qkv)), (linear, "ssm_out.weight", (out, n_embd)),
    ] + [(linear, name, (n_embd, width)) for name, width in rates]


def next_tensors():
    layers, d = list(range(48)), 2048
    return ends(d, 151936) + delta_net_tensors(d, 48, 4096, 512, 4096, 8192, 32, True) + ffn(d, 512, layers, "_exps", (512,)) \
        + ffn(d, 512, layers, "_shexp") + [(layers, "ffn_gate_inp.weight", (d, 512)),
            (layers, "ffn_gate_inp_shexp.weight", (d,))]


def moe_tensors():
    layers, d = list(range(60)), 4096
    return ends(d, 248320) + delta_net_tensors(d, 60, 8192, 512, 8192, 12288, 64, False) + ffn(d, 1024, layers, "_exps", (512,)) \
        + ffn(d, 1024, layers, "_shexp") + [(layers, "ffn_gate_inp.weight", (d, 512)),
            (layers, "ffn_gate_inp_shexp.weight", (d,))]


SNAPSHOTS = {
    "qwen3-0.6b": ("qwen3", dict(n_embd=1024, n_ff=3072, n_vocab=151936, n_layer=28, n_head=16, n_head_kv=8),
        ends(1024, 151936) + dense(1024, 3072, 2048, 1024, list(range(28)))),
    "qwen3-14b": ("qwen3", dict(n_embd=5120, n_ff=17408, n_vocab=151936, n_layer=40, n_head=40, n_head_kv=8),
        ends(5120, 151936) + dense(5120, 17408, 5120, 1024, list(range(40)))),
    "qwen3-coder-next": ("qwen3next", dict(n_embd=2048, n_ff=5120, n_vocab=151936, n_layer=48, n_head=16, n_head_kv=2,
        n_expert=512), next_tensors()),
    "qwen3.5-397b-a17b": ("qwen35moe", dict(n_embd=4096, n_ff=0, n_vocab=248320, n_layer=60, n_head=32, n_head_kv=2,
        n_expert=512), moe_tensors()),
    "qwen3.6-27b": ("qwen35", dict(n_embd=5120, n_ff=17408, n_vocab=248320, n_layer=64, n_head=24, n_head_kv=4),
        ends(5120, 248320) + delta_net_tensors(5120, 64, 6144, 1024, 6144, 10240, 48, False)
        + ffn(5120, 17408, list(range(64)))),
}
