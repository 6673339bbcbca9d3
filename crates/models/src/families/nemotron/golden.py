"""Golden recipes of Nemotron, by NVIDIA."""

from recipes import attention, ends
from tiny_models import OLD, TEXT, tiny
from tiny_towers import with_biases

NEMOTRON = dict(head_dim=8, mamba_num_heads=4, mamba_head_dim=16, n_groups=2, ssm_state_size=8, conv_kernel=4,
    expand=2)
NEMOTRON_MOE = dict(NEMOTRON, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1,
    moe_shared_expert_intermediate_size=40, routed_scaling_factor=2.5)
NEMOTRON_TYPES = ["linear_attention", "mlp", "full_attention", "linear_attention"]
NEMOTRON_MOE_TYPES = ["linear_attention", "moe", "full_attention", "moe"]
# With the class of transformers the reference takes every file for one of a mixture, because the class has defaults for
# experts: dense ones are given to it with a `model_type` that transformers does not know.
OF_EXPERTS = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "n_group",
    "topk_group", "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap", "routed_scaling_factor",
    "norm_topk_prob", "moe_latent_size", "num_nextn_predict_layers", "mtp_layers_block_type", "output_router_logits")
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
    import torch
    start = next(name for name in tensors if name.endswith("layers.0.norm.weight")).removesuffix("layers.0.norm.weight")
    like = lambda layer: {name.split(f"layers.{layer}.")[1]: tensor for name, tensor in tensors.items()
                          if name.startswith(f"{start}layers.{layer}.")}
    new = lambda *shape: torch.randn(shape) * 0.05
    own = {"mtp.layers.0.enorm.weight": new(32), "mtp.layers.0.hnorm.weight": new(32), "mtp.layers.0.eh_proj.weight": new(32, 64),
           "mtp.layers.1.final_layernorm.weight": new(32)}
    own |= {f"mtp.layers.{i}.{name}": new(*tensor.shape) for i, layer in ((0, 2), (1, 1))
            for name, tensor in like(layer).items()}
    return tensors | {name: tensor.to(torch.bfloat16) for name, tensor in own.items()}


CHECKPOINTS = {
    "nemotron": tiny(model="nemotron"),
    "nemotron-old": tiny(model="nemotron", config=dict(head_dim=8), old=dict(OLD, partial_rotary_factor=0.5,
        rope_theta=10000, rope_scaling=None)),
    "nemotron-h": dict(model="nemotron_h", tokenizer="bpe", config=dict(NEMOTRON, layers_block_type=NEMOTRON_TYPES),
        reference=RAW),
    "nemotron-h-old": dict(model="nemotron_h", tokenizer="bpe", config=dict(NEMOTRON,
        layers_block_type=NEMOTRON_TYPES), drop=("layers_block_type", *OF_EXPERTS), old=dict(OLD, **PATTERN,
        rms_norm_eps=1e-5, hidden_act="silu"), reference=dict(set=dict(model_type="nemotron_h_of_the_hub"))),
    "nemotron-h-moe": dict(model="nemotron_h", tokenizer="bpe", config=dict(NEMOTRON_MOE, moe_latent_size=20,
        layers_block_type=NEMOTRON_MOE_TYPES)),
    "nemotron-h-moe-old": dict(model="nemotron_h", tokenizer="bpe", extra=with_nemotron_mtp, config=dict(NEMOTRON_MOE,
        layers_block_type=NEMOTRON_MOE_TYPES, num_nextn_predict_layers=1),
        drop=("layers_block_type", "mtp_layers_block_type"), old=dict(OLD, hybrid_override_pattern="ME*E",
        num_hidden_layers=4, mtp_hybrid_override_pattern="*E", norm_eps=1e-5)),
    "nemotron-puzzle": dict(hand=puzzle("backbone"), config=PUZZLE, tokenizer="bpe"),
    "nemotron-puzzle-model": dict(hand=puzzle("model"), config=PUZZLE, tokenizer="bpe"),
}

WIDE = {"nemotron": {}}
LOGITS = {"nemotron-puzzle": dict(by="reference")}


def nano_tensors():
    mamba = [0, 2, 4, 7, 9, 11, 14, 16, 18, 21, 23, 25, 28, 30, 32, 35, 37, 39, 41, 44, 46, 48, 50]
    full = [5, 12, 19, 26, 33, 42]
    experts = [i for i in range(52) if i not in mamba + full]
    d = 2688
    return ends(d, 131072) + [
        (mamba, "ssm_in.weight", (d, 10304)), (mamba, "ssm_conv1d.weight", (4, 6144)),
            (mamba, "ssm_norm.weight", (512, 8)),
        (mamba, "ssm_a", (1, 64)), (mamba, "ssm_d", (1, 64)), (mamba, "ssm_out.weight", (4096, d)),
        *attention(d, 4096, 256, full),
        (experts, "ffn_gate_inp.weight", (d, 128)), (experts, "exp_probs_b.bias", (128,)),
        (experts, "ffn_up_exps.weight", (d, 1856, 128)), (experts, "ffn_down_exps.weight", (1856, d, 128)),
        (experts, "ffn_up_shexp.weight", (d, 3712)), (experts, "ffn_down_shexp.weight", (3712, d)),
    ]


SNAPSHOTS = {
    "nvidia-nemotron-3-nano-30b-a3b": (
        "nemotron_h_moe", dict(n_embd=2688, n_ff=0, n_vocab=131072, n_layer=52, n_head=32, n_head_kv=0, n_expert=128),
        nano_tensors()),
}


def radio(config: dict) -> dict:
    """RADIO with the number of layers and the width that the reference requires, and narrow layers; Parakeet as audio encoder."""
    eye, ear = "vision_model.radio_model.model.", "sound_encoder.encoder."
    n_positions = config["vision_config"]["max_resolution"] // config["vision_config"]["patch_size"]
    both, plain = {}, {eye + "patch_generator.embedder.weight": [1280, 12],
        eye + "patch_generator.pos_embed": [1, n_positions * n_positions, 1280],
        eye + "patch_generator.cls_token.token": [2, 1280], eye + "patch_generator.video_embedder.weight": [1280, 12],
        "vision_model.radio_model.input_conditioner.norm_mean": [3, 1, 1], "mlp1.0.weight": [16], "mlp1.1.weight": [24, 16],
        "mlp1.3.weight": [32, 24], "language_model.backbone.norm_f.weight": [32]}
    for i in range(32):
        both |= {f"{eye}blocks.{i}.{name}": shape for name, shape in {"norm1": [4], "norm2": [4], "attn.qkv": [12, 4],
            "attn.proj": [4, 4], "mlp.fc1": [8, 4], "mlp.fc2": [4, 8]}.items()}
    if "sound_config" in config:
        both |= {f"{ear}subsampling.layers.{i}": shape for i, shape in {0: [4, 1, 3, 3], 2: [4, 1, 3, 3], 3: [4, 4, 1, 1],
            5: [4, 1, 3, 3], 6: [4, 4, 1, 1]}.items()} | {ear + "subsampling.linear": [16, 4]}
        plain |= {"sound_projection.norm.weight": [16], "sound_projection.linear1.weight": [24, 16],
                  "sound_projection.linear2.weight": [32, 24], ear + "feature_extractor.featurizer.fb": [1, 8, 9],
                  ear + "feature_extractor.featurizer.window": [8]}
        for i in range(2):
            layer = f"{ear}layers.{i}."
            both |= {layer + name: [16] for name in ("norm_feed_forward1", "norm_self_att", "norm_conv",
                "norm_feed_forward2", "norm_out", "conv.norm")}
            plain |= {layer + name: shape for name, shape in {"self_attn.bias_u": [2, 8], "self_attn.bias_v": [2, 8],
                "conv.pointwise_conv1.weight": [32, 16, 1], "conv.pointwise_conv2.weight": [16, 16, 1],
                "conv.depthwise_conv.weight": [16, 1, 3], "conv.norm.running_mean": [16],
                "conv.norm.running_var": "near-one 16", "conv.norm.num_batches_tracked": "numbers:7 1 I64",
                **{f"feed_forward{n}.linear1.weight": [64, 16] for n in (1, 2)},
                **{f"feed_forward{n}.linear2.weight": [16, 64] for n in (1, 2)},
                **{f"self_attn.{x}_proj.weight": [16, 16] for x in ("q", "k", "v", "o", "relative_k")}}.items()}
    return with_biases(both) | plain


def nano_vl(resolution: int, **more) -> dict:
    """A recipe whose positions are learned for images of this size and used for 8 pixels."""
    return dict(hand=radio, tokenizer="bpe", vocab_size=384, raw_config=True, no_q8_0=True, config=dict(
        architectures=["NemotronH_Nano_VL_V2"], model_type="NemotronH_Nano_VL_V2", torch_dtype="bfloat16",
        force_image_size=8, downsample_ratio=0.5, vision_config=dict(architectures=["RADIOModel"], model_type="",
        patch_size=2, max_resolution=resolution), llm_config=dict(TEXT, model_type="nemotron_h"), **more))


SOUND = dict(hidden_size=16, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_mel_bins=8,
    subsampling_factor=8, conv_kernel_size=3)

PROJECTORS = {
    "nemotron-nano-vl": nano_vl(8) | dict(preprocessor=dict(image_mean=None, image_std=None)),
    # Positions of 12 patches on a side are interpolated to 4.
    "nemotron-nano-omni": nano_vl(24, sound_config=SOUND) | dict(near=["v.position_embd.weight"]),
}
