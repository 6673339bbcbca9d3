"""Golden recipes of Ling and Ring (Bailing), by inclusionAI: mixtures of experts, and images in Ling 3."""

from tiny_models import NARROW_HAND, TEXT, by_layer
from tiny_parts import mlp
from tiny_towers import ONE, QWEN35_VISION, with_biases


def bailing_first() -> dict:
    attention = {"attention.query_key_value": [32, 16], "attention.dense": [16, 16]}
    return {"model.word_embeddings.weight": [288, 16], **by_layer(0, attention, True, 24),
        **by_layer(1, attention, True, 24),
            "model.norm.weight": [16], "lm_head.weight": [288, 16]}


def bailing() -> dict:
    attention = {"attention.query_key_value": [32, 16], "attention.dense": [16, 16], "attention.query_layernorm": [4],
        "attention.key_layernorm": [4]}
    last = {f"model.layers.2.{name}.weight": shape for name, shape in {
        "eh_proj": [16, 32], "enorm": [16], "hnorm": [16], "final_layernorm": [16]}.items()}
    bias = {f"model.layers.{i}.mlp.gate.expert_bias": [4] for i in (1, 2)}
    return {"model.word_embeddings.weight": [288, 16], **by_layer(0, attention, False, 12),
        **by_layer(1, attention, True, 12),
            **by_layer(2, attention, True, 12), **last, **bias, "model.norm.weight": [16], "lm_head.weight": [288, 16]}


BAILING3 = dict(TEXT, architectures=["BailingMoeV3ForCausalLM"], model_type="bailing_moe_v3", torch_dtype="bfloat16",
    num_hidden_layers=3, layer_group_size=2, head_dim=8, num_experts=3, num_experts_per_tok=2,
    moe_intermediate_size=24, moe_shared_expert_intermediate_size=24, num_shared_experts=1, first_k_dense_replace=1,
    routed_scaling_factor=2.5, norm_topk_prob=True, score_function="sigmoid", n_group=1, topk_group=1, kv_lora_rank=16,
    q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10, num_key_value_heads=4, rms_norm_eps=1e-6,
    rope_theta=600000, short_conv_kernel_size=4, no_kda_lora=True, kda_safe_gate=True, kda_lower_bound=-5.0,
    tie_word_embeddings=False, gated_attention_proj_granularity_type="head_wise", num_nextn_predict_layers=1,
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
                tensors |= mlp(f"{layer}{part}", rows)
        last = {"eh_proj": [32, 64], "enorm": [32], "hnorm": [32], "final_layernorm": [32]}
        return tensors | {f"{start}model.layers.3.{name}.weight": shape for name, shape in last.items()}

    return make


CHECKPOINTS = {
    "bailingmoe": dict(hand=bailing_first(), tokenizer="bpe", config=dict(NARROW_HAND,
        architectures=["BailingMoeForCausalLM"], model_type="bailing_moe", num_experts=4, num_shared_experts=2,
        first_k_dense_replace=0, norm_topk_prob=True, rope_theta=600000, norm_head=False, norm_softmax=False)),
    "bailingmoe2": dict(hand=bailing(), tokenizer="bpe", config=dict(NARROW_HAND,
        architectures=["BailingMoeV2ForCausalLM"], model_type="bailing_moe", num_experts=4, num_shared_experts=1,
        first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, score_function="sigmoid", n_group=2,
        topk_group=1, partial_rotary_factor=0.5, rope_theta=600000, num_nextn_predict_layers=1, head_dim=4,
        use_qk_norm=True)),
    "bailingmoe3": dict(hand=bailing3(""), tokenizer="bpe", config=BAILING3),
    "bailingmoe3-vl": dict(hand=bailing3("", "visual.patch_embed.proj.weight", "linear_proj.0.weight"), tokenizer="bpe", config=dict(
        architectures=["BailingMoeV3VLForConditionalGeneration"], model_type="bailing_moe_v3_vl", vocab_size=384,
        torch_dtype="bfloat16", vision_config={}, text_config=dict(
            {key: value for key, value in BAILING3.items() if key not in ("architectures", "expert_swiglu_limit_list")},
            mrope_section=[2, 1, 1], q_lora_rank=None))),
}


def sarvam() -> dict:
    """Bailing 2 without prediction; biases of the experts in both types."""
    tensors = {name: shape for name, shape in bailing().items() if not name.startswith("model.layers.2.")}
    return tensors | {"model.layers.1.mlp.gate.expert_bias": "wide 4 F32", **{
        name.replace("layers.1.", "layers.2."): shape for name, shape in tensors.items() if "layers.1." in name},
        "model.layers.2.mlp.gate.expert_bias": "wide 4"}


CHECKPOINTS |= {
    # transformers' config class has other names for the numbers of experts.
    "sarvam-moe": dict(hand=sarvam(), tokenizer="bpe", raw_config=True, config=dict(NARROW_HAND, architectures=["SarvamMoEForCausalLM"],
        model_type="sarvam_moe", num_hidden_layers=3, num_experts=4, num_shared_experts=1, first_k_dense_replace=1,
        norm_topk_prob=True, routed_scaling_factor=2.5, score_function="sigmoid", n_group=1, topk_group=1,
        rope_theta=600000, head_dim=4, use_qk_norm=True)),
}


def ling3vl(_: dict) -> dict:
    tower = "model.visual."
    shapes = {tower + "merger.norm": [16], "linear_proj.0": [48, 64], "linear_proj.2": [32, 48]}
    for i in range(QWEN35_VISION["depth"]):
        layer = f"{tower}blocks.{i}."
        shapes |= {layer + "norm1": [16], layer + "norm2": [16], layer + "attn.qkv": [48, 16], layer + "attn.proj": [16, 16],
                   layer + "mlp.linear_fc1": [24, 16], layer + "mlp.linear_fc2": [16, 24]}
    return with_biases(shapes) | {tower + "patch_embed.proj.weight": [16, 3, 2, 4, 4], tower + "pos_embed.weight": [16, 16],
                                  "model.language_model.embed_tokens.weight": [384, 32]}


PROJECTORS = {
    "ling3vl": dict(tokenizer="bpe", hand=ling3vl,
        config=dict(architectures=["BailingMoeV3VLForConditionalGeneration"], model_type="bailing_moe_v3_vl",
        text_config=dict(ONE, rms_norm_eps=1e-5), vision_config=dict(QWEN35_VISION, disable_merger_proj=True,
        spatial_merge_size=2))),
}

LOGITS = {"sarvam-moe": dict(by="reference"), "bailingmoe": dict(by="reference"), "bailingmoe2": dict(by="reference"),
    "bailingmoe3": dict(by="reference"), "bailingmoe3-vl": dict(by="reference")}
