"""Tiny checkpoints of hybrids, of later text parts with eyes, and of models that embed, for arch.py. Keys are those of
families.py and families_spec.py; `wrapper` is that of families_wrappers.py."""

import torch

from families import GLM_TOKENS, POOLING, layers
from families_encoders import NOMIC_CONFIG
from families_moe import EXTRA, GLM_SPECIAL
from families_wrappers import OLD, TEXT, WRAPPERS, wrapper

# State spaces: 4 heads of 16, in 2 groups.
MAMBA = dict(mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=8, mamba_d_head=16, mamba_d_conv=4, mamba_expand=2)
GRANITE = dict(MAMBA, shared_intermediate_size=40, embedding_multiplier=12, attention_multiplier=0.125,
               logits_scaling=4, residual_multiplier=0.22)
EXPERTS = dict(num_local_experts=3, num_experts_per_tok=2)
NO_EXPERTS = dict(num_local_experts=0, num_experts_per_tok=0)
# The reference knows the names of kinds of layers that the Hub's files have, and not those of transformers 5.
KINDS = dict(linear_attention="mamba", full_attention="attention")


def granite(kinds: str, experts: dict, old: bool = False, **more) -> dict:
    """`kinds` has a letter for each layer: M for a state space, A for attention."""
    types = [dict(M="linear_attention", A="full_attention")[kind] for kind in kinds]
    of_hub = dict(layer_types=[KINDS[kind] for kind in types])
    spec = dict(model="granitemoehybrid", tokenizer="bpe", config=dict(
        GRANITE, **experts, num_hidden_layers=len(types), layer_types=types, **more))
    if old:
        return dict(spec, old=dict(OLD, rope_theta=10000, rope_scaling=None, **of_hub))
    return dict(spec, reference=dict(set=of_hub))


NEMOTRON = dict(head_dim=8, mamba_num_heads=4, mamba_head_dim=16, n_groups=2, ssm_state_size=8, conv_kernel=4, expand=2)
NEMOTRON_MOE = dict(NEMOTRON, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1,
                    moe_shared_expert_intermediate_size=40, routed_scaling_factor=2.5)
NEMOTRON_TYPES = ["linear_attention", "mlp", "full_attention", "linear_attention"]
NEMOTRON_MOE_TYPES = ["linear_attention", "moe", "full_attention", "moe"]
# With the class of transformers the reference takes every file for one of a mixture, because the class has defaults for
# experts: dense ones are given to it with a `model_type` that transformers does not know.
OF_EXPERTS = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "n_group", "topk_group",
              "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap", "routed_scaling_factor", "norm_topk_prob",
              "moe_latent_size", "num_nextn_predict_layers", "mtp_layers_block_type", "output_router_logits")
PATTERN = dict(hybrid_override_pattern="M-*M", num_hidden_layers=4)
RAW = dict(set=dict(PATTERN, model_type="nemotron_h_of_the_hub"), drop=("layers_block_type", *OF_EXPERTS))

PUZZLE = dict(TEXT, **{key: value for key, value in NEMOTRON_MOE.items() if key not in (
    "num_experts_per_tok", "moe_intermediate_size")}, architectures=["NemotronHPuzzleForCausalLM"], model_type="nemotron_h_puzzle",
    num_hidden_layers=4, layer_norm_epsilon=1e-5, norm_topk_prob=True, n_group=1, topk_group=1, moe_latent_size=20,
    num_nextn_predict_layers=1, torch_dtype="bfloat16", hidden_act="silu", block_configs=[
        dict(block_type="mamba"), dict(block_type="moe", moe_intermediate_size=24, num_experts_per_tok=2),
        dict(block_type="attention"), dict(block_type="moe", moe_intermediate_size=16, num_experts_per_tok=1)])


def puzzle(start: str):
    """Layers of which each mixture has its own width; `start` is what names begin with."""
    mamba = {"A_log": [4], "D": [4], "dt_bias": [4], "conv1d.weight": [96, 1, 4], "conv1d.bias": [96],
             "in_proj.weight": [164, 32], "norm.weight": [64], "out_proj.weight": [32, 64]}
    attention = {"q_proj.weight": [32, 32], "k_proj.weight": [16, 32], "v_proj.weight": [16, 32], "o_proj.weight": [32, 32]}

    def mixture(width: int) -> dict:
        experts = {f"experts.{x}.{name}.weight": shape for x in range(3)
                   for name, shape in (("up_proj", [width, 20]), ("down_proj", [20, width]))}
        return {"gate.weight": [3, 32], "gate.e_score_correction_bias": [3], "fc1_latent_proj.weight": [20, 32],
                "fc2_latent_proj.weight": [32, 20], "shared_experts.up_proj.weight": [40, 32],
                "shared_experts.down_proj.weight": [32, 40], **experts}

    tensors = {f"{start}.embeddings.weight": [384, 32], f"{start}.norm_f.weight": [32], "lm_head.weight": [384, 32],
               "mtp.layers.0.enorm.weight": [32]}
    for i, mixer in enumerate([mamba, mixture(24), attention, mixture(16)]):
        tensors[f"{start}.layers.{i}.norm.weight"] = [32]
        tensors |= {f"{start}.layers.{i}.mixer.{name}": shape for name, shape in mixer.items()}
    return tensors


def with_nemotron_mtp(tensors: dict, config) -> dict:
    """The prediction as published checkpoints have it: attention and a mixture as two layers of their own."""
    start = next(name for name in tensors if name.endswith("layers.0.norm.weight")).removesuffix("layers.0.norm.weight")
    like = lambda layer: {name.split(f"layers.{layer}.")[1]: tensor for name, tensor in tensors.items()
                          if name.startswith(f"{start}layers.{layer}.")}
    new = lambda *shape: torch.randn(shape) * 0.05
    own = {"mtp.layers.0.enorm.weight": new(32), "mtp.layers.0.hnorm.weight": new(32), "mtp.layers.0.eh_proj.weight": new(32, 64),
           "mtp.layers.1.final_layernorm.weight": new(32)}
    own |= {f"mtp.layers.{i}.{name}": new(*tensor.shape) for i, layer in ((0, 2), (1, 1))
            for name, tensor in like(layer).items()}
    return tensors | {name: tensor.to(torch.bfloat16) for name, tensor in own.items()}


def with_glm_ocr(tensors: dict, config) -> dict:
    """A layer after the last, which predicts the token after the next."""
    last = {name.replace(".layers.1.", ".layers.2."): torch.randn_like(tensor) * 0.05 for name, tensor in tensors.items()
            if ".language_model.layers.1." in name}
    start = "model.language_model.layers.2."
    width = config.text_config.hidden_size
    own = {"eh_proj": [width, 2 * width], "enorm": [width], "hnorm": [width], "shared_head.norm": [width],
           "shared_head.head": [384, width], "embed_tokens": [384, width]}
    last |= {f"{start}{name}.weight": torch.randn(shape) * 0.05 for name, shape in own.items()}
    return tensors | {name: tensor.to(torch.bfloat16) for name, tensor in last.items()}


def in_model(tensors: dict, config) -> dict:
    return {f"model.{name}": tensor for name, tensor in tensors.items()}


EXTRA |= dict(nemotron_mtp=with_nemotron_mtp, glm_ocr=with_glm_ocr, in_model=in_model)

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
GLM_MOE["rope_parameters"] = dict(ROPE_GLM, partial_rotary_factor=0.5)

OMNI_TEXT = dict(TEXT, model_type="qwen2_5_omni_text", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1000000.0,
    rope_scaling=dict(rope_type="default", type="default", mrope_section=[2, 1, 1]), use_sliding_window=False, sliding_window=256,
    max_window_layers=2, tie_word_embeddings=False)


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


PADDLE_TOWER = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=16,
                    patch_size=4)
PADDLE_TEXT = dict(head_dim=8, rope_parameters=dict(rope_type="default", rope_theta=500000.0, mrope_section=[2, 1, 1]))

LATENT = dict(TEXT, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, n_routed_experts=3,
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
            tensors |= {f"{layer}{part}.{name}.weight": shape for name, shape in (
                ("gate_proj", [rows, 32]), ("up_proj", [rows, 32]), ("down_proj", [32, rows]))}
    return tensors


LATENT_ATTENTION = {"q_proj": [80, 32], "kv_a_proj_with_mqa": [24, 32], "kv_a_layernorm": [16], "kv_b_proj": [88, 16],
                    "o_proj": [32, 40]}
PLAIN_ATTENTION = {"q_proj": [32, 32], "k_proj": [32, 32], "v_proj": [32, 32], "o_proj": [32, 32]}


def kimi_vl(config: dict) -> dict:
    return {**mixture_layers("language_model.", LATENT_ATTENTION), "vision_tower.patch_embed.proj.weight": [16, 3, 4, 4],
            "multi_modal_projector.linear_1.weight": [32, 16]}


def deepseek_ocr(config: dict) -> dict:
    tensors = mixture_layers("", PLAIN_ATTENTION)
    del tensors["model.layers.1.mlp.gate.e_score_correction_bias"]
    return {**tensors, "model.sam_model.patch_embed.proj.weight": [16, 3, 4, 4], "model.image_newline": [32],
            "model.vision_model.embeddings.class_embedding": [16], "model.projector.layers.weight": [32, 16],
            "model.view_seperator": [32]}


OCR_TEXT = {key: value for key, value in LATENT.items() if key not in (
    "kv_lora_rank", "scoring_func", "topk_method", "rope_theta", "q_lora_rank", "norm_topk_prob")}
OCR_TEXT |= dict(kv_lora_rank=None, q_lora_rank=None, qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0, use_mla=False,
                 topk_method="greedy", architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2")

ROPE_KINDS = dict(full_attention=dict(rope_type="yarn", rope_theta=500000.0, partial_rotary_factor=0.5, factor=8.0,
                                      original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0, attention_factor=1.0),
                  sliding_attention=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0))
LAGUNA = dict(head_dim=8, num_hidden_layers=3, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
    shared_expert_intermediate_size=40, sliding_window=16, moe_routed_scaling_factor=2.5, rope_parameters=ROPE_KINDS,
    layer_types=["full_attention", "sliding_attention", "sliding_attention"], mlp_layer_types=["dense", "sparse", "sparse"],
    num_attention_heads_per_layer=[4, 6, 4], bos_token_id=2, eos_token_id=[2, 3])
KIMI_LINEAR = dict(kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, num_key_value_heads=4,
    num_experts=3, num_experts_per_token=2, moe_intermediate_size=24, num_shared_experts=1, first_k_dense_replace=1,
    num_hidden_layers=3, moe_router_activation_func="sigmoid", mla_use_nope=True, linear_attn_config=dict(
        full_attn_layers=[2], kda_layers=[1, 3], head_dim=8, num_heads=4, short_conv_kernel_size=4))
GEMMA3N = dict(head_dim=8, num_hidden_layers=11, num_kv_shared_layers=3, sliding_window=16, hidden_size_per_layer_input=4,
    vocab_size_per_layer_input=384, laurel_rank=4, activation_sparsity_pattern=None)


def with_fewer_tokens(tensors: dict, config) -> dict:
    """Embeddings without rows for the last tokens, which stand for images and sounds."""
    return {name: tensor[:-12].clone() if "embed_tokens" in name else tensor for name, tensor in tensors.items()}


def without_counters(tensors: dict, config) -> dict:
    return {name: tensor for name, tensor in tensors.items() if not name.endswith("num_batches_tracked")}


EXTRA |= dict(fewer_tokens=with_fewer_tokens, no_counters=without_counters)

NOMIC_MOE = dict(NOMIC_CONFIG, activation_function="gelu", mlp_fc1_bias=True, mlp_fc2_bias=True, qkv_proj_bias=True,
    moe_every_n_layers=2, moe_top_k=2, num_experts=3, n_positions=2048, vocab_size=152, rotary_emb_base=10000,
    layer_norm_epsilon=1e-5, type_vocab_size=1, expert_choice_router=False, num_shared_experts=0)


def nomic_moe(config: dict) -> dict:
    names = {"emb_ln": [32], "attn.Wqkv": [96, 32], "attn.out_proj": [32, 32], "norm1": [32], "norm2": [32]}
    tensors = {"embeddings.word_embeddings.weight": [152, 32], "embeddings.token_type_embeddings.weight": [1, 32],
               "emb_ln.weight": [32], "emb_ln.bias": [32], "pooler.dense.weight": [32, 32], "pooler.dense.bias": [32]}
    for i in range(2):
        layer = f"encoder.layers.{i}."
        own = {name: shape for name, shape in names.items() if name != "emb_ln"}
        own |= {"mlp.fc1": [64, 32], "mlp.fc2": [32, 64]} if i == 0 else {}
        for name, shape in own.items():
            tensors |= {f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[:1]}
    return tensors | {"encoder.layers.1.mlp.router.layer.weight": [3, 32], "encoder.layers.1.mlp.experts.bias": [32],
                      "encoder.layers.1.mlp.experts.mlp.w1": [192, 32], "encoder.layers.1.mlp.experts.mlp.w2": [192, 32]}


BAILING3 = dict(TEXT, architectures=["BailingMoeV3ForCausalLM"], model_type="bailing_moe_v3", torch_dtype="bfloat16",
    num_hidden_layers=3, layer_group_size=2, head_dim=8, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
    moe_shared_expert_intermediate_size=24, num_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=2.5,
    norm_topk_prob=True, score_function="sigmoid", n_group=1, topk_group=1, kv_lora_rank=16, q_lora_rank=24,
    qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, num_key_value_heads=4, rms_norm_eps=1e-6, rope_theta=600000,
    short_conv_kernel_size=4, no_kda_lora=True, kda_safe_gate=True, kda_lower_bound=-5.0, tie_word_embeddings=False,
    gated_attention_proj_granularity_type="head_wise", num_nextn_predict_layers=1,
    expert_swiglu_limit_list=[None, 7.0, 10.5, 7.0], share_expert_swiglu_limit_list=[None, None, 5.0])


def bailing3(start: str, *others: str):
    """Layers of delta attention, of latent attention, of latent attention after the last group, and a prediction."""
    delta = {"q_proj.weight": [32, 32], "k_proj.weight": [32, 32], "v_proj.weight": [32, 32], "q_conv1d.weight": [32, 1, 4],
             "k_conv1d.weight": [32, 1, 4], "v_conv1d.weight": [32, 1, 4], "f_proj.weight": [32, 32], "b_proj.weight": [4, 32],
             "g_proj.weight": [32, 32], "A_log": [4], "dt_bias": [32], "o_norm.weight": [8], "o_proj.weight": [32, 32]}
    latent = {"kv_a_proj_with_mqa.weight": [24, 32], "kv_a_layernorm.weight": [16], "kv_b_proj.weight": [88, 16],
              "g_proj.weight": [4, 32], "dense.weight": [32, 40]}
    ranked = {"q_a_proj.weight": [24, 32], "q_a_layernorm.weight": [24], "q_b_proj.weight": [80, 24]}

    def make(config: dict) -> dict:
        text = config.get("text_config", config)
        queries = ranked if text["q_lora_rank"] else {"q_proj.weight": [80, 32]}
        tensors = {"model.word_embeddings.weight": [384, 32], "model.norm.weight": [32], "lm_head.weight": [384, 32],
                   **{name: [16, 16] for name in others}}
        for i in range(4):
            layer = f"{start}model.layers.{i}."
            attention = delta if i == 0 else latent | queries
            tensors |= {f"{layer}{name}.weight": [32] for name in ("input_layernorm", "post_attention_layernorm")}
            tensors |= {f"{layer}attention.{name}": shape for name, shape in attention.items()}
            parts = {"mlp": 48} if i == 0 else {f"mlp.experts.{x}": 24 for x in range(3)} | {"mlp.shared_experts": 24}
            if i:
                tensors |= {f"{layer}mlp.gate.weight": [3, 32], f"{layer}mlp.gate.expert_bias": [3]}
            for part, rows in parts.items():
                tensors |= {f"{layer}{part}.{name}.weight": shape for name, shape in (
                    ("gate_proj", [rows, 32]), ("up_proj", [rows, 32]), ("down_proj", [32, rows]))}
        last = {"eh_proj": [32, 64], "enorm": [32], "hnorm": [32], "final_layernorm": [32]}
        return tensors | {f"{start}model.layers.3.{name}.weight": shape for name, shape in last.items()}

    return make


NEOBERT = dict(architectures=["NeoBERTLMHead"], model_type="neobert", torch_dtype="float32", hidden_size=32, intermediate_size=72,
    num_hidden_layers=2, num_attention_heads=4, max_length=512, norm_eps=1e-5, vocab_size=384, pad_token_id=0,
    embedding_init_range=0.02, decoder_init_range=0.02)


def neobert(start: str, classes: int = 0):
    tensors = {f"{start}encoder.weight": [384, 32], f"{start}layer_norm.weight": [32]}
    for i in range(2):
        for name, shape in {"qkv": [96, 32], "wo": [32, 32], "ffn.w12": [96, 32], "ffn.w3": [32, 48], "attention_norm": [32],
                            "ffn_norm": [32]}.items():
            tensors[f"{start}transformer_encoder.{i}.{name}.weight"] = shape
    if classes:
        return tensors | {"dense.weight": [32, 32], "dense.bias": [32], "classifier.weight": [classes, 32], "classifier.bias": [classes]}
    return tensors | {"decoder.weight": [384, 32], "decoder.bias": [384]}


DENSE_MODULES = [*POOLING["modules.json"], *[dict(idx=i, name=str(i), path=f"{i}_Dense", type="sentence_transformers.models.Dense")
                                             for i in (2, 3)]]

HYBRIDS = {
    "granitehybrid": granite("MAM", EXPERTS),
    "granitehybrid-old": granite("MA", NO_EXPERTS, old=True, tie_word_embeddings=True),
    # Models without state spaces are written under the names of older ones.
    "granite4-dense": granite("AA", NO_EXPERTS),
    "granite4-dense-old": granite("AA", NO_EXPERTS, old=True),
    "granite4-moe": granite("AA", EXPERTS),
    "bamba": dict(model="bamba", tokenizer="bpe", config=dict(MAMBA, attn_layer_indices=[1])),
    "bamba-old": dict(model="bamba", tokenizer="bpe", config=dict(MAMBA, attn_layer_indices=[1], tie_word_embeddings=True),
        old=dict(OLD, rope_theta=10000.0, rope_scaling=None, attn_rotary_emb=4)),
    "nemotron-h": dict(model="nemotron_h", tokenizer="bpe", config=dict(NEMOTRON, layers_block_type=NEMOTRON_TYPES),
        reference=RAW),
    "nemotron-h-old": dict(model="nemotron_h", tokenizer="bpe", config=dict(NEMOTRON, layers_block_type=NEMOTRON_TYPES),
        drop=("layers_block_type", *OF_EXPERTS), old=dict(OLD, **PATTERN, rms_norm_eps=1e-5, hidden_act="silu"),
        reference=dict(set=dict(model_type="nemotron_h_of_the_hub"))),
    "nemotron-h-moe": dict(model="nemotron_h", tokenizer="bpe", config=dict(
        NEMOTRON_MOE, moe_latent_size=20, layers_block_type=NEMOTRON_MOE_TYPES)),
    "nemotron-h-moe-old": dict(model="nemotron_h", tokenizer="bpe", extra="nemotron_mtp", config=dict(
        NEMOTRON_MOE, layers_block_type=NEMOTRON_MOE_TYPES, num_nextn_predict_layers=1),
        drop=("layers_block_type", "mtp_layers_block_type"), old=dict(OLD, hybrid_override_pattern="ME*E", num_hidden_layers=4,
            mtp_hybrid_override_pattern="*E", norm_eps=1e-5)),
    "nemotron-puzzle": dict(hand=puzzle("backbone"), config=PUZZLE, tokenizer="bpe"),
    "nemotron-puzzle-model": dict(hand=puzzle("model"), config=PUZZLE, tokenizer="bpe"),
    "glm4v": wrapper("glm4v", "Glm4vForConditionalGeneration", GLM_TEXT, vision_config=GLM_TOWER,
        more=dict(special=GLM_TOKENS)),
    "glm4v-old": wrapper("glm4v", "Glm4vForConditionalGeneration", GLM_TEXT, vision_config=GLM_TOWER, more=dict(
        special=GLM_TOKENS, more=dict(text_config=old_text(GLM_TEXT, attention_bias=True, model_type="glm4v_text")))),
    "glm4v-moe": wrapper("glm4v_moe", "Glm4vMoeForConditionalGeneration", GLM_MOE, vision_config=GLM_TOWER,
        more=dict(special=GLM_SPECIAL)),
    "glm-ocr": wrapper("glm_ocr", "GlmOcrForConditionalGeneration", dict(GLM_TEXT, head_dim=16, num_nextn_predict_layers=1),
        vision_config=GLM_TOWER, more=dict(special=GLM_TOKENS, extra="glm_ocr")),
    "eurobert": dict(model="eurobert", **{"class": "EuroBertModel"}, tokenizer="bpe", files=POOLING, config=dict(
        classifier_pooling="mean")),
    "jina-v5": dict(model="eurobert", **{"class": "EuroBertModel"}, tokenizer="bpe", files=POOLING, extra="in_model",
        drop=("classifier_pooling",), more=dict(architectures=["JinaEmbeddingsV5Model"], model_type="jina_embeddings_v5",
            rope_theta=250000.0)),
    "llama-embed": dict(model="llama", **{"class": "LlamaModel"}, tokenizer="bpe", more=dict(
        architectures=["LlamaBidirectionalModel"], model_type="llama_bidirec", pooling="avg")),
    "qwen2.5omni": dict(hand=omni, tokenizer="bpe", config=dict(
        architectures=["Qwen2_5OmniModel"], model_type="qwen2_5_omni", torch_dtype="bfloat16", vocab_size=384,
        thinker_config=dict(model_type="qwen2_5_omni_thinker", text_config=OMNI_TEXT), talker_config={}, token2wav_config={})),
    "paddleocr": wrapper("paddleocr_vl", "PaddleOCRVLForConditionalGeneration", PADDLE_TEXT, vision_config=PADDLE_TOWER,
        more=dict(tokenizer="spm", tokenizer_config=dict(add_prefix_space=False))),
    "youtu": dict(model="youtu", tokenizer="bpe", config=dict(
        kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, num_key_value_heads=4)),
    "kimi-vl": dict(hand=kimi_vl, tokenizer="bpe", config=dict(
        architectures=["KimiVLForConditionalGeneration"], model_type="kimi_vl", vocab_size=384, torch_dtype="bfloat16",
        text_config=dict(LATENT, model_type="deepseek_v3"), vision_config={})),
    "deepseek-ocr": dict(hand=deepseek_ocr, tokenizer="bpe", config=dict(
        architectures=["DeepseekOCRForCausalLM"], model_type="DeepseekOCR", vocab_size=384, torch_dtype="bfloat16",
        language_config=OCR_TEXT, vision_config={})),
    "unlimited-ocr": dict(hand=deepseek_ocr, tokenizer="bpe", config=dict(
        OCR_TEXT, architectures=["UnlimitedOCRForCausalLM"], model_type="unlimited-ocr", torch_dtype="bfloat16",
        sliding_window_size=128)),
    "laguna": dict(model="laguna", tokenizer="bpe", special=["</assistant>"], config=dict(LAGUNA)),
    "laguna-by-element": dict(model="laguna", tokenizer="bpe", config=dict(LAGUNA, gating="per-element",
        num_attention_heads_per_layer=None, eos_token_id=2)),
    # transformers saves the dense part under the name of the mixtures.
    "kimi-linear": dict(model="kimi_linear", tokenizer="bpe", config=dict(KIMI_LINEAR),
        tensor_names=[("layers.0.block_sparse_moe.", "layers.0.mlp.")]),
    "gemma3n": dict(model="gemma3n_text", **{"class": "Gemma3nForCausalLM"}, bare=True, extra="fewer_tokens", config=dict(
        TEXT, **GEMMA3N)),
    "gemma3n-old": dict(model="gemma3n_text", **{"class": "Gemma3nForCausalLM"}, bare=True, config=dict(
        TEXT, **dict(GEMMA3N, num_hidden_layers=5, num_kv_shared_layers=2, activation_sparsity_pattern=[0.95, 0.5, 0.9, 0.25, 0.975],
            layer_types=["sliding_attention", "full_attention"] * 2 + ["sliding_attention"], intermediate_size=[48] * 5)),
        drop=("layer_types",), old=dict(OLD, rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=None)),
    "lfm2-colbert": dict(model="lfm2", **{"class": "Lfm2Model"}, tokenizer="bpe", dense={"1_Dense": [12, 32]}, config=dict(
        layer_types=["conv", "full_attention"], block_multiple_of=8)),
    "gemma-embedding-dense": dict(WRAPPERS["gemma-embedding"], dense={"2_Dense": [48, 32], "3_Dense": [32, 48]},
        options=dict(sentence_transformers_dense_modules=True), files=dict(POOLING, **{"modules.json": DENSE_MODULES})),
    "lfm2-bidirectional": dict(model="lfm2", **{"class": "Lfm2Model"}, tokenizer="bpe", files=POOLING, config=dict(
        layer_types=["conv", "full_attention"], block_multiple_of=8), more=dict(architectures=["Lfm2BidirectionalModel"])),
    "nomic-bert-moe": dict(hand=nomic_moe, tokenizer="unigram_json", files=POOLING, config=NOMIC_MOE),
    # Known by the name of the folder; the tokens whose rows are taken are there.
    "qwen3-reranker": dict(model="qwen3", tokenizer="bpe", special=["yes", "no"], config=dict(
        head_dim=8, tie_word_embeddings=True)),
    "qwen3-reranker-untied": dict(model="qwen3", tokenizer="bpe", special=["yes", "no"], config=dict(head_dim=8)),
    "qwen3-vl-reranker": dict(WRAPPERS["qwen3vl"], special=["yes", "no"]),
    "bailingmoe3": dict(hand=bailing3(""), tokenizer="bpe", config=BAILING3),
    "bailingmoe3-vl": dict(hand=bailing3("", "visual.patch_embed.proj.weight", "linear_proj.0.weight"), tokenizer="bpe", config=dict(
        architectures=["BailingMoeV3VLForConditionalGeneration"], model_type="bailing_moe_v3_vl", vocab_size=384,
        torch_dtype="bfloat16", vision_config={}, text_config=dict(
            {key: value for key, value in BAILING3.items() if key not in ("architectures", "expert_swiglu_limit_list")},
            mrope_section=[2, 1, 1], q_lora_rank=None))),
    "granite-speech": wrapper("granite_speech", "GraniteSpeechForConditionalGeneration",
        dict(model_type="granite", architectures=["GraniteForCausalLM"]), encoder_config=dict(
            input_dim=8, num_layers=1, hidden_dim=16, feedforward_mult=2, num_heads=2, dim_head=8, output_dim=8, context_size=8,
            max_pos_emb=16, conv_kernel_size=3), projector_config=dict(model_type="blip_2_qformer", hidden_size=16,
                num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, encoder_hidden_size=16), has_lora_adapter=False, more=dict(extra="no_counters")),
    "neobert": dict(hand=neobert("model."), tokenizer="wordpiece", config=NEOBERT),
    "neobert-classifier": dict(hand=neobert("model.", classes=3), tokenizer="wordpiece", config=dict(
        NEOBERT, architectures=["NeoBERTForSequenceClassification"], id2label={str(i): f"kind {i}" for i in range(3)},
        label2id={f"kind {i}": i for i in range(3)})),
    "chameleon": dict(model="chameleon", **{"class": "ChameleonForConditionalGeneration"}, bare=True, tokenizer="bpe", config=dict(dict(
        TEXT, num_key_value_heads=4), vocabulary_map={"<image>": 5}, vq_config=dict(embed_dim=8, num_embeddings=16, latent_channels=8, resolution=16,
            base_channels=32, channel_multiplier=[1], num_res_blocks=1))),
}
