"""Golden recipes of Step 3.5 and 3.7, by StepFun."""

from logits_own import loaded, read
from recipes import ends, ffn
from tiny_models import HUB, LLAMA3, TEXT, fast_tokenizer, with_tokenizer


def step35(config: dict) -> dict:
    """Layers with and without a window have different heads; the last one predicts."""
    v, h, f, d = config["vocab_size"], config["hidden_size"], config["moe_intermediate_size"], config["head_dim"]
    tensors = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h]}
    for i, kind in enumerate(config["layer_types"]):
        other = config["attention_other_setting"] if kind == "sliding_attention" else config
        q, k = other["num_attention_heads"], other["num_attention_groups"]
        layer = {"input_layernorm": [h], "post_attention_layernorm": [h], "self_attn.q_norm": [d], "self_attn.k_norm": [d],
                 "self_attn.q_proj": [q * d, h], "self_attn.k_proj": [k * d, h], "self_attn.v_proj": [k * d, h],
                 "self_attn.o_proj": [h, q * d], "self_attn.g_proj": [q, h]}
        if str(i) in config["moe_layers_enum"].split(","):
            e, s = config["moe_num_experts"], config["share_expert_dim"]
            layer |= {"moe.gate": [e, h], "moe.gate_proj": [e, f, h], "moe.up_proj": [e, f, h], "moe.down_proj": [e, h, f],
                      "share_expert.gate_proj": [s, h], "share_expert.up_proj": [s, h], "share_expert.down_proj": [h, s]}
            tensors[f"model.layers.{i}.moe.router_bias"] = [e]
        else:
            g = config["intermediate_size"]
            layer |= {"mlp.gate_proj": [g, h], "mlp.up_proj": [g, h], "mlp.down_proj": [h, g]}
        if i >= config["num_hidden_layers"]:
            layer |= {"eh_proj": [h, 2 * h], "enorm": [h], "hnorm": [h], "transformer.shared_head.norm": [h],
                      "transformer.shared_head.output": [v, h]}
        tensors |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return tensors


CHECKPOINTS = {
    "step35": dict(hand=step35, tokenizer="bpe", patches=with_tokenizer(fast_tokenizer),
        reference=dict(set=dict(model_type="unknown")),
        config=dict(HUB, architectures=["Step3p5ForCausalLM"], model_type="step3p5", num_hidden_layers=3, head_dim=8,
        num_attention_groups=1, attention_other_setting=dict(attention_type="sliding_attention", num_attention_heads=6,
        num_attention_groups=2, head_dim=8, true_head_dim=8), layer_types=["full_attention", "sliding_attention",
        "sliding_attention", "full_attention"], partial_rotary_factors=[0.5, 1.0, 1.0, 0.5],
        rope_theta=[5000000.0, 10000.0, 10000.0, 5000000.0], rope_scaling=LLAMA3,
        sliding_window=16, moe_layers_enum="1,2", moe_num_experts=3, moe_top_k=2, moe_intermediate_size=24,
        share_expert_dim=20, moe_router_scaling_factor=3.0, norm_expert_weight=True, moe_every_n_layer=1,
        moe_router_activation="sigmoid", use_moe_router_bias=True, rms_norm_eps=1e-5, swiglu_limits=[None, 7, 0.0],
        swiglu_limits_shared=[0.0, 0.0, 16.0], num_nextn_predict_layers=1, zero_centered=True,
        use_head_wise_attn_gate=True)),
}


def step_tower(config: dict) -> dict:
    """The tower with the number of layers that the reference requires; the layers are narrow."""
    layer = {"ln_1.weight": [4], "ln_1.bias": [4], "ln_2.weight": [4], "ln_2.bias": [4], "ls_1.gamma": [4], "ls_2.gamma": [4],
             "attn.in_proj_weight": [12, 4], "attn.in_proj_bias": [12], "attn.out_proj.weight": [4, 4],
             "attn.out_proj.bias": [4], "mlp.c_fc.weight": [8, 4], "mlp.c_fc.bias": [8], "mlp.c_proj.weight": [4, 8],
             "mlp.c_proj.bias": [4]}
    return {"vision_model.conv1.weight": [4, 3, 2, 2], "vision_model.positional_embedding": [9, 4],
            "vision_model.ln_pre.weight": [4], "vision_model.ln_pre.bias": [4],
            **{f"vision_model.transformer.resblocks.{i}.{name}": shape for i in range(47) for name, shape in layer.items()},
            "vision_model.vit_downsampler1.weight": [6, 4, 3, 3], "vision_model.vit_downsampler1.bias": [6],
            "vision_model.vit_downsampler2.weight": [8, 6, 3, 3], "vision_model.vit_downsampler2.bias": [8],
            "vit_large_projector.weight": [32, 8], "model.embed_tokens.weight": [384, 32]}


STEP_VISION = dict(image_size=728, patch_size=14, width=1536, layers=47, heads=16, mlp_ratio=8960 / 1536, use_ln_post=False)

PROJECTORS = {
    "step3vl": dict(hand=step_tower, tokenizer="bpe", no_q8_0=True, preprocessor=None, raw_config=True, config=dict(
        architectures=["StepVLForConditionalGeneration"], model_type="step_robotics", torch_dtype="bfloat16",
        understand_projector_stride=2, projector_bias=False, vision_config=dict(STEP_VISION, model_type="perception_encoder"),
        text_config=dict(TEXT, model_type="qwen3", head_dim=8))),
    "step3p7": dict(hand=step_tower, tokenizer="bpe", no_q8_0=True,
        config=dict(architectures=["Step3p7ForConditionalGeneration"], model_type="step3p7", torch_dtype="bfloat16",
        understand_projector_stride=2, vision_config=dict(STEP_VISION, intermediate_size=8960, layer_norm_eps=1e-6),
        text_config=dict(TEXT, model_type="step3p5", head_dim=8))),
}


def text_logits(folder, tokens):
    """Step 3.5 as the text part of Step 3.7, without the layer that predicts further tokens."""
    import torch
    import torch.nn.functional as F
    from transformers.models.step3p7.configuration_step3p7 import Step3p7TextConfig
    from transformers.models.step3p7.modeling_step3p7 import Step3p7TextModel
    config, tensors = read(folder)
    n, other = config["num_hidden_layers"], config["attention_other_setting"]
    head, text = tensors.pop("lm_head.weight"), {}
    for name, tensor in tensors.items():
        if name.startswith(f"model.layers.{n}."):
            continue
        name = name.removeprefix("model.").replace(".moe.router_bias", ".moe.gate.e_score_correction_bias")
        name = name.replace(".share_expert.", ".moe.shared_experts.").replace(".moe.", ".mlp.")
        text[name] = tensor
    for name in [name for name in text if name.endswith("mlp.gate_proj.weight") and text[name].ndim == 3]:
        gate, up, down = (text.pop(name.replace("gate_proj", f"{part}_proj")) for part in ("gate", "up", "down"))
        layer = name.removesuffix("gate_proj.weight")
        text |= {f"{layer}experts.gate_up_proj": torch.cat([gate, up], dim=1), f"{layer}experts.down_proj": down}
    config["swiglu_limits"] = [limit or 0.0 for limit in config["swiglu_limits"]]
    config["num_key_value_heads"] = config["num_attention_groups"]
    config["per_layer_config"] = {
        str(i): dict(num_attention_heads=other["num_attention_heads"], num_key_value_heads=other["num_attention_groups"])
        for i, kind in enumerate(config["layer_types"][:n]) if kind == "sliding_attention"}
    for key, new in (("moe_num_experts", "n_routed_experts"), ("moe_top_k", "num_experts_per_tok")):
        config[new] = config.pop(key)
    del config["model_type"], config["architectures"]
    model = loaded(Step3p7TextModel(Step3p7TextConfig(**config, attn_implementation="eager")), text)
    return F.linear(model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0], head).numpy(), False, None


LOGITS = {"step35": dict(run=text_logits)}


def flash_tensors():
    # Three layers of sliding windows to one of full attention, which has fewer heads.
    layers, moe, d = list(range(45)), list(range(3, 45)), 4096
    full = [i for i in layers if i % 4 == 0]
    window = [i for i in layers if i % 4 != 0]
    rows = ends(d, 128896)
    for where, heads in ((full, 64), (window, 96)):
        rows += [(where, "attn_q.weight", (d, heads * 128)), (where, "attn_output.weight", (heads * 128, d)),
                 (where, "attn_gate.weight", (d, heads))]
    return rows + [(layers, "attn_k.weight", (d, 1024)), (layers, "attn_v.weight", (d, 1024)),
                   (moe, "ffn_gate_inp.weight", (d, 288)), (moe, "exp_probs_b.bias", (288,))] \
        + ffn(d, 11264, [0, 1, 2]) + ffn(d, 1280, moe, "_exps", (288,)) + ffn(d, 1280, moe, "_shexp")


SNAPSHOTS = {
    "step-3.5-flash": ("step35", dict(n_embd=4096, n_ff=11264, n_vocab=128896, n_layer=45, n_head=64, n_head_kv=8,
        n_expert=288), flash_tensors()),
}
