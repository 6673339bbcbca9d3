"""Tiny checkpoints of further houses' decoders, for arch.py: those of EXAONE, Qwen 1, Refact, Xverse, Dream, Arcee, Tencent,
Cohere, IBM and others. Keys are those of families.py and families_spec.py, and:

  stand_in  the tokenizer that the reference is given: Tiktoken, as of Qwen 1, whose code lies beside its models; Fast
  gpt2_vocab  the reference reads tokenizer.json as byte-level BPE, where its class insists on the code of another one
"""

import json
import shutil
from contextlib import ExitStack, contextmanager
from unittest import mock

from families import LLAMA3, layers, llama_like, sizes
from families_wrappers import OLD, TEXT, wrapper
from lib import GOLDEN

HUB = dict(TEXT, torch_dtype="bfloat16", transformers_version="4.43.0")
YARN = dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0)
FEW = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24)


def hub(architecture: str, model_type: str, **more) -> dict:
    """A config.json as the Hub has it, of a model whose code comes with it."""
    return dict(HUB, architectures=[architecture], model_type=model_type, **more)


def exaone(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    layer = {"ln_1": [h], "attn.attention.q_proj": [q, h], "attn.attention.k_proj": [k, h],
             "attn.attention.v_proj": [k, h], "attn.attention.out_proj": [h, q], "ln_2": [h], "mlp.c_fc_0": [f, h],
             "mlp.c_fc_1": [f, h], "mlp.c_proj": [h, f]}
    head = {} if config["tie_word_embeddings"] else {"lm_head.weight": [v, h]}
    return {"transformer.wte.weight": [v, h], "transformer.ln_f.weight": [h], **head,
            **layers(config, {f"transformer.h.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def qwen(config: dict) -> dict:
    v, h, f, _, _ = sizes(config)
    layer = {"ln_1.weight": [h], "attn.c_attn.weight": [3 * h, h], "attn.c_attn.bias": [3 * h], "attn.c_proj.weight": [h, h],
             "ln_2.weight": [h], "mlp.w1.weight": [f // 2, h], "mlp.w2.weight": [f // 2, h], "mlp.c_proj.weight": [h, f // 2]}
    return {"transformer.wte.weight": [v, h], "transformer.ln_f.weight": [h], "lm_head.weight": [v, h],
            **layers(config, {f"transformer.h.{{}}.{name}": shape for name, shape in layer.items()})}


def refact(config: dict) -> dict:
    v, h, head = config["vocab_size"], config["n_embd"], config["n_embd"] // config["n_head"]
    layer = {"ln_1": [h], "attn.q": [h, h], "attn.kv": [2 * head, h], "attn.c_proj": [h, h], "ln_2": [h],
             "mlp.gate_up_proj": [512, h], "mlp.c_proj": [h, 256]}
    return {"transformer.wte.weight": [v, h], "ln_f.weight": [h], "lm_head.weight": [v, h],
            **layers(dict(num_hidden_layers=config["n_layer"]), {
                f"transformer.h.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def with_bias(config: dict) -> dict:
    """A llama with biases of queries, keys and values, as Qwen 2 has."""
    tensors = llama_like(config)
    return tensors | {name.replace(".weight", ".bias"): shape[:1] for name, shape in tensors.items()
                      if any(f".{x}_proj." in name for x in "qkv")}


def exaone_mtp(tensors: dict, config) -> dict:
    """The prediction: a dense layer, as the first is, and its own tensors."""
    import torch
    text = config.get_text_config()
    width = text.hidden_size
    copies = {f"mtp.layers.0.{name.split('layers.0.')[1]}": tensor.clone() for name, tensor in tensors.items()
              if "layers.0." in name and "visual" not in name}
    shapes = {"fc": [width, 2 * width], "pre_fc_norm_embedding": [width], "pre_fc_norm_hidden": [width], "norm": [width]}
    return tensors | copies | {f"mtp.{name}.weight": torch.ones(shape, dtype=torch.bfloat16)
                               for name, shape in shapes.items()}


def after_last(rename: dict = {}, **parts):
    """A layer after the last as a copy of it, and what predicts with it; shapes in widths."""

    def extra(tensors: dict, config) -> dict:
        import torch
        last, width = config.num_hidden_layers, config.hidden_size
        more = {name.replace(f"layers.{last - 1}.", f"layers.{last}."): tensor.clone()
                for name, tensor in tensors.items() if f"layers.{last - 1}." in name}
        more |= {f"model.layers.{last}.{rename.get(name, name)}.weight": torch.ones(
            [n * width for n in shape], dtype=torch.bfloat16) for name, shape in parts.items()}
        return tensors | more
    return extra


def deci(config: dict) -> dict:
    """A llama of which each layer has what block_configs says."""
    v, h, heads = config["vocab_size"], config["hidden_size"], config["num_attention_heads"]
    tensors = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h]}
    for i, block in enumerate(config["block_configs"]):
        attention, ffn = block["attention"], block["ffn"]
        layer = {}
        if group := attention["n_heads_in_group"]:
            k = heads // group * h // heads
            layer |= {"self_attn.q_proj": [h, h], "self_attn.k_proj": [k, h], "self_attn.v_proj": [k, h],
                      "self_attn.o_proj": [h, h]}
        elif attention["replace_with_linear"]:
            layer |= {"self_attn.linear_attn": [h, h]}
        layer |= {"input_layernorm": [h]} if layer else {}
        if ffn["ffn_mult"]:
            f = -(-int(2 * ffn["ffn_mult"] * h / 3) // 256) * 256
            layer |= {"mlp.gate_proj": [f, h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f],
                      "post_attention_layernorm": [h]}
        tensors |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return tensors


def decilm(config: dict) -> dict:
    """A llama whose layers have different numbers of key heads."""
    tensors = llama_like(config)
    for i, heads in enumerate(config["num_key_value_heads_per_layer"]):
        for x in "kv":
            tensors[f"model.layers.{i}.self_attn.{x}_proj.weight"] = [heads * 8, 32]
    return tensors


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


def mimo(config: dict) -> dict:
    """Layers of both kinds, the projections as one, and three layers that predict."""
    v, h, q, d, u = (config[key] for key in ("vocab_size", "hidden_size", "num_attention_heads", "head_dim", "v_head_dim"))
    tensors = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h]}

    def layer(slides: int, mixture: int) -> dict:
        k = config["swa_num_key_value_heads" if slides else "num_key_value_heads"]
        f, names = config["moe_intermediate_size"], {}
        parts = {f"mlp.experts.{x}": f for x in range(config["n_routed_experts"])} if mixture else {
            "mlp": config["intermediate_size"]}
        for part, rows in parts.items():
            names |= {f"{part}.gate_proj": [rows, h], f"{part}.up_proj": [rows, h], f"{part}.down_proj": [h, rows]}
        return names | {"input_layernorm": [h], "self_attn.qkv_proj": [q * d + k * (d + u), h],
                        "self_attn.o_proj": [h, q * u], **({"mlp.gate": [config["n_routed_experts"], h]} if mixture else {})}
    for i, (slides, mixture) in enumerate(zip(config["hybrid_layer_pattern"], config["moe_layer_freq"])):
        names = layer(slides, mixture) | {"post_attention_layernorm": [h]}
        tensors |= {f"model.layers.{i}.{name}.weight": shape for name, shape in names.items()}
        tensors |= {f"model.layers.{i}.self_attn.attention_sink_bias": [q]} if slides else {}
        tensors |= {f"model.layers.{i}.mlp.gate.e_score_correction_bias": [config["n_routed_experts"]]} if mixture else {}
    for i in range(3):
        names = layer(1, 0) | {"pre_mlp_layernorm": [h], "eh_proj": [h, 2 * h], "enorm": [h], "hnorm": [h],
                               "final_layernorm": [h]}
        tensors |= {f"model.mtp.layers.{i}.{name}.weight": shape for name, shape in names.items()}
        tensors |= {f"model.mtp.layers.{i}.self_attn.attention_sink_bias": [q]}
    return tensors


def block(group, mult, linear: bool = False) -> dict:
    return dict(attention=dict(n_heads_in_group=group, replace_with_linear=linear, no_op=False),
                ffn=dict(ffn_mult=mult, replace_with_linear=False, no_op=False))


def plm(config: dict) -> dict:
    v, h, f, _, _ = sizes(config)
    r, n, p, u, q = (config[key] for key in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                                             "num_attention_heads"))
    layer = {"self_attn.q_proj": [q * (n + p), h], "self_attn.kv_a_proj_with_mqa": [r + p, h],
             "self_attn.kv_a_layernorm": [r], "self_attn.kv_b_proj": [q * (n + u), r], "self_attn.o_proj": [h, q * u],
             "mlp.up_proj": [f, h], "mlp.down_proj": [h, f], "input_layernorm": [h], "post_attention_layernorm": [h]}
    return {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h],
            **layers(config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def with_norms(config: dict) -> dict:
    """A llama with norms of queries and keys."""
    norms = {f"model.layers.{{}}.self_attn.{x}_norm.weight": [config["head_dim"]] for x in "qk"}
    return llama_like(config) | layers(config, norms)


def experts(names: str = "gate_proj up_proj down_proj", part: str = "mlp", router: str = "gate", small: int = 0,
            norms: bool = True, length: str = "moe_intermediate_size", count: str = "num_experts"):
    """A llama of mixtures; with `small`, as many rows of experts that each pair has beside."""

    def shapes(config: dict) -> dict:
        base = with_norms(config) if norms else llama_like(config)
        h, f, layer = config["hidden_size"], config[length], {}
        gate, up, down = names.split()
        parts = {f"{part}.experts.{x}": f for x in range(config[count])}
        parts |= {f"{part}.chunk_experts.{x}": small for x in range(config[count] // 2 if small else 0)}
        for name, rows in parts.items():
            layer |= {f"{name}.{gate}": [rows, h], f"{name}.{up}": [rows, h], f"{name}.{down}": [h, rows]}
        layer |= {f"{part}.{router}": [config[count], h]}
        return {name: shape for name, shape in base.items() if ".mlp." not in name} | layers(
            config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})
    return shapes


def llada(config: dict) -> dict:
    v, h, f = config["vocab_size"], config["d_model"], config["mlp_hidden_size"]
    k = config["n_kv_heads"] * h // config["n_heads"]
    layer = {"attn_norm": [h], "q_proj": [h, h], "k_proj": [k, h], "v_proj": [k, h], "attn_out": [h, h], "ff_norm": [h],
             "ff_proj": [f, h], "up_proj": [f, h], "ff_out": [h, f]}
    return {"model.transformer.wte.weight": [v, h], "model.transformer.ln_f.weight": [h],
            "model.transformer.ff_out.weight": [v, h], **layers(dict(num_hidden_layers=config["n_layers"]), {
                f"model.transformer.blocks.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def spark(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    layer = {"input_layernorm": [h], "post_attention_layernorm": [h], "self_attn.q_k_v_proj": [q + 2 * k, h],
             "self_attn.g_proj": [config["num_attention_heads"], h], "self_attn.o_proj": [h, q],
             "mlp.gate_proj": [f, h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f]}
    return {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h],
            **layers(config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def sarashina(config: dict) -> dict:
    text = {f"llm.{name}": shape for name, shape in llama_like(config["text_config"]).items()}
    return text | {"norm.weight": [16], "norm.bias": [16], "visual.blocks.0.attn.proj.weight": [16, 16]}


def stablelm_images(config: dict) -> dict:
    return llama_like(config, bias=True) | {"model.vision_tower.vision_model.embeddings.class_embedding": [16],
        "model.mm_projector.0.weight": [32, 16]}


def arctic(config: dict) -> dict:
    h, f = config["hidden_size"], config["intermediate_size"]
    parts = {"residual_mlp": h} | {f"block_sparse_moe.experts.{x}": f for x in range(config["num_local_experts"])}
    layer = {"residual_layernorm": [h], "block_sparse_moe.gate": [config["num_local_experts"], h]}
    for part, rows in parts.items():
        layer |= {f"{part}.w1": [rows, h], f"{part}.w2": [h, rows], f"{part}.w3": [rows, h]}
    return {name: shape for name, shape in llama_like(config).items() if ".mlp." not in name} | layers(
        config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})


def openelm(config: dict) -> dict:
    v, h, d = config["vocab_size"], config["model_dim"], config["head_dim"]
    tensors = {"transformer.token_embeddings.weight": [v, h], "transformer.norm.weight": [h]}
    for i, (q, k, f) in enumerate(zip(config["num_query_heads"], config["num_kv_heads"], (48, 64))):
        layer = {"attn.qkv_proj": [(q + 2 * k) * d, h], "attn.q_norm": [d], "attn.k_norm": [d], "attn.out_proj": [h, q * d],
                 "attn_norm": [h], "ffn_norm": [h], "ffn.proj_1": [2 * f, h], "ffn.proj_2": [h, f]}
        tensors |= {f"transformer.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return tensors


def cogvlm(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    layer = {"input_layernorm": [h], "post_attention_layernorm": [h]}
    for part in ("language", "vision"):
        layer |= {f"self_attn.{part}_expert_query_key_value": [q + 2 * k, h], f"self_attn.{part}_expert_dense": [h, q],
                  f"mlp.{part}_mlp.gate_proj": [f, h], f"mlp.{part}_mlp.up_proj": [f, h], f"mlp.{part}_mlp.down_proj": [h, f]}
    return {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h],
            "model.vision.boi": [1, 1, h], **layers(config, {
                f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def plamo(config: dict) -> dict:
    """PLaMo 3, or 2 where there are sizes of a state."""
    v, h, f = config["vocab_size"], config["hidden_size"], config["intermediate_size"]
    q, k = config["num_attention_heads"], config["num_key_value_heads"]
    tensors = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h]}
    for i in range(config["num_hidden_layers"]):
        layer = {"pre_mixer_norm.weight": [h], "post_mixer_norm.weight": [h], "pre_mlp_norm.weight": [h],
                 "post_mlp_norm.weight": [h], "mlp.gate_up_proj.weight": [2 * f, h], "mlp.down_proj.weight": [h, f]}
        d = config.get("hidden_size_per_head", config.get("head_dim"))
        if "mamba_d_state" in config and i % 2 == 0:
            n, s, w = config["mamba_num_heads"], config["mamba_d_state"], config["mamba_num_heads"] * d
            layer |= {"mixer.in_proj.weight": [2 * w, h], "mixer.conv1d.weight": [w, 1, config["mamba_d_conv"]],
                      "mixer.bcdt_proj.weight": [s * 2 + 64, w], "mixer.dt_proj.weight": [n, 64], "mixer.dt_bias": [n],
                      "mixer.A_log": [n], "mixer.D": [n], "mixer.out_proj.weight": [h, w], "mixer.dt_norm_weight": [64],
                      "mixer.B_norm_weight": [s], "mixer.C_norm_weight": [s]}
        else:
            layer |= {"mixer.qkv_proj.weight": [(q + 2 * k) * d, h], "mixer.o_proj.weight": [h, q * d]}
            layer |= {"mixer.q_weight": [q, d], "mixer.k_weight": [k, d]} if "mamba_d_state" in config else {
                "mixer.q_norm.weight": [d], "mixer.k_norm.weight": [d]}
        tensors |= {f"model.layers.layers.{i}.{name}": shape for name, shape in layer.items()}
    return tensors


def grok(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    layer = {"rms_norm": [h], "rms_norm_1": [h], "rms_norm_2": [h], "rms_norm_3": [h], "router": [3, h],
             "multi_head_attention.query": [q, h], "multi_head_attention.key": [k, h],
             "multi_head_attention.value": [k, h], "multi_head_attention.linear": [h, q]}
    for x in range(3):
        layer |= {f"moe.{x}.linear": [f, h], f"moe.{x}.linear_1": [h, f], f"moe.{x}.linear_v": [f, h]}
    return {"transformer.in_out_embed.weight": [v, h], "transformer.rms_norm.weight": [h], "lm_head.weight": [v, h], **layers(
        config, {f"transformer.decoder_layer.{{}}.{name}.weight": shape for name, shape in layer.items()})}


def grok2(config: dict) -> dict:
    h, m, layer = config["hidden_size"], config["moe_intermediate_size"], {"block_sparse_moe.gate": [3, config["hidden_size"]]}
    layer |= {f"{x}_{y}_norm": [h] for x in ("pre", "post") for y in ("attn", "moe")}
    for x in range(3):
        layer |= {f"block_sparse_moe.experts.{x}.{w}": [h, m] if w == "w2" else [m, h] for w in ("w1", "w2", "w3")}
    return {name: shape for name, shape in llama_like(config).items() if "layernorm" not in name} | layers(
        config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})


def wavtokenizer(config: dict) -> dict:
    n, w, out = config["n_embd_features"], config["posnet"]["n_embd"], {"backbone.embedding.weight": [config["vocab_size"],
        config["n_embd_features"]]}
    names = {"backbone.embed": [w, n, 7], "backbone.norm": [w], "backbone.final_layer_norm": [w],
             "head.out": [config["hidden_size"], w]}
    for i in range(config["posnet"]["n_layer"]):
        layer = {"norm": [w, 1], "q": [w, w, 1], "k": [w, w, 1], "v": [w, w, 1], "proj_out": [w, w, 1]} if i == 2 else {
            "norm": [w, 1]} if i == 5 else {"norm1": [w, 1], "conv1": [w, w, 3], "norm2": [w, 1], "conv2": [w, w, 3]}
        names |= {f"backbone.posnet.{i}.{name}": shape for name, shape in layer.items()}
    for i in range(config["convnext"]["n_layer"]):
        layer = {"dwconv": [w, 1, 7], "norm": [w], "pwconv1": [config["n_ff"], w], "pwconv2": [w, config["n_ff"]]}
        names |= {f"backbone.convnext.{i}.{name}": shape for name, shape in layer.items()}
        out[f"backbone.convnext.{i}.gamma.weight"] = [w]
    for name, shape in names.items():
        out |= {f"{name}.weight": shape, f"{name}.bias": [shape[0], 1] if "posnet" in name or name.endswith("embed") else shape[:1]}
    return out


EXTRA = {
    "exaone_mtp": exaone_mtp,
    "hy_v3_mtp": after_last(eh_proj=[1, 2], enorm=[1], hnorm=[1], final_layernorm=[1]),
    "cohere_mtp": after_last({"shared_head": "shared_head.norm"}, eh_proj=[1, 2], enorm=[1], hnorm=[1], shared_head=[1]),
}

GRANITE = dict(TEXT, num_hidden_layers=4, sliding_window=16, embedding_multiplier=12.0, logits_scaling=8.0,
               residual_multiplier=0.22, attention_multiplier=0.0078125)
COHERE = dict(TEXT, head_dim=8, num_hidden_layers=4, num_experts=3, num_experts_per_tok=2, num_shared_experts=1,
              sliding_window=16, prefix_dense_intermediate_size=64, mlp_layer_types=["dense", "sparse", "sparse", "sparse"])
AFMOE = dict(TEXT, **FEW, head_dim=8, num_hidden_layers=4, num_dense_layers=1, num_shared_experts=1, sliding_window=16,
             global_attn_every_n_layers=2, route_scale=2.5)
HUNYUAN = dict(TEXT, head_dim=8, eod_token_id=3, max_position_embeddings=32768)
ALPHA = dict(alpha=1000.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0, mscale_all_dim=1.0)
EXAONE_MOE = dict(TEXT, **FEW, num_hidden_layers=4, head_dim=8, sliding_window=16, num_shared_experts=1)
EXAONE_TOWER = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, num_key_value_heads=1, patch_size=4,
                    out_hidden_size=32, fullatt_block_indexes=[0])
HUNYUAN_TOWER = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, patch_size=4,
                     max_image_size=16, min_image_size=4, max_vit_seq_len=16, out_hidden_size=32, img_max_token_num=16)

HOUSES = {
    "exaone": dict(hand=exaone, tokenizer="bpe", stand_in="Fast", rename=dict(num_hidden_layers="num_layers",
        rms_norm_eps="layer_norm_epsilon"), config=hub("ExaoneForCausalLM", "exaone", activation_function="silu",
        head_dim=8, rms_norm_eps=1e-5, rope_theta=1000000, tie_word_embeddings=True, rope_scaling=LLAMA3,
        attention_dropout=0.0, embed_dropout=0.0)),
    # The first release: no scaling, no length of heads, an output of its own.
    "exaone3": dict(hand=exaone, tokenizer="bpe", rename=dict(num_hidden_layers="num_layers",
        rms_norm_eps="layer_norm_epsilon"), config=hub("ExaoneForCausalLM", "exaone", activation_function="silu",
        rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=False, rope_scaling=None)),
    "qwen": dict(hand=qwen, tokenizer="qwen_tiktoken", stand_in="Tiktoken", remove=("num_key_value_heads", "bos_token_id",
        "eos_token_id", "pad_token_id"), config=hub("QWenLMHeadModel", "qwen", vocab_size=520, num_key_value_heads=4,
        kv_channels=8, layer_norm_epsilon=1e-6, no_bias=True, rotary_emb_base=10000, rotary_pct=1.0, seq_length=2048,
        tie_word_embeddings=False, use_dynamic_ntk=True, use_logn_attn=True, scale_attn_weights=True,
        tokenizer_class="QWenTokenizer")),
    "refact": dict(hand=refact, tokenizer="bpe", config=dict(architectures=["GPTRefactForCausalLM"],
        model_type="gpt_refact", vocab_size=384, n_embd=32, n_head=4, n_layer=2, n_positions=512, n_inner=None,
        layer_norm_epsilon=1e-5, multi_query=True, attention_softmax_in_fp32=False, bos_token_id=1, eos_token_id=2,
        torch_dtype="bfloat16", do_sample=True)),
    "xverse": dict(hand=llama_like, tokenizer="llama_bpe", remove=("num_key_value_heads",), config=hub("XverseForCausalLM",
        "xverse", num_key_value_heads=4, rms_norm_eps=1e-6, max_tokenizer_truncation=512, hidden_act="silu")),
    "dream": dict(hand=with_bias, tokenizer="bpe", config=hub("DreamModel", "Dream", rms_norm_eps=1e-6,
        rope_theta=1000000.0, rope_scaling=None, mask_token_id=3, hidden_act="silu", tie_word_embeddings=False,
        use_sliding_window=False, sliding_window=None, max_window_layers=2)),
    "exaone4.5": wrapper("exaone4_5", "Exaone4_5_ForConditionalGeneration", dict(model_type="exaone4", head_dim=8,
        num_hidden_layers=4, sliding_window=16), vision_config=EXAONE_TOWER),
    "exaone4.5-old": wrapper("exaone4_5", "Exaone4_5_ForConditionalGeneration", dict(model_type="exaone4", head_dim=8,
        num_hidden_layers=4, sliding_window=16, num_nextn_predict_layers=1, mtp_share_layers=True,
        rope_parameters=dict(LLAMA3, rope_theta=1000000.0)), vision_config=EXAONE_TOWER, more=dict(extra="exaone_mtp")),
    "exaone-moe": dict(model="exaone_moe", tokenizer="bpe", config=dict(EXAONE_MOE, n_group=1, topk_group=1)),
    "exaone-moe-old": dict(model="exaone_moe", tokenizer="bpe", extra="exaone_mtp", config=dict(EXAONE_MOE,
        num_nextn_predict_layers=1), drop=("mlp_layer_types", "first_k_dense_replace"), old=dict(OLD,
        architectures=["ExaoneMoEForCausalLM"], first_last_k_dense_replace=1, rope_theta=1000000, scoring_func="sigmoid",
        rope_scaling=dict(rope_type="default"), sliding_window_pattern="LLLG", topk_method="noaux_tc")),
    "afmoe": dict(model="afmoe", tokenizer="bpe", config=dict(AFMOE)),
    "afmoe-old": dict(model="afmoe", tokenizer="bpe", drop=("layer_types",), config=dict(AFMOE), old=dict(OLD,
        rope_theta=10000, rope_scaling=None, score_func="sigmoid", route_norm=True, n_group=1, topk_group=1,
        num_expert_groups=1, num_limited_groups=1, mup_enabled=True, load_balance_coeff=5e-05, use_grouped_mm=True)),
    "hunyuan-dense": dict(model="hunyuan_v1_dense", tokenizer="bpe", config=dict(HUNYUAN, tie_word_embeddings=True)),
    "hunyuan-dense-old": dict(model="hunyuan_v1_dense", tokenizer="bpe", config=dict(HUNYUAN), old=dict(OLD,
        rope_theta=10000.0, rope_scaling=dict(ALPHA, type="dynamic"), use_qk_norm=True, use_cla=False, cla_share_factor=2,
        attention_head_dim=8, org_vocab_size=384, norm_type="rms", use_rotary_pos_emb=True),
        generation=dict(eos_token_id=[2, 3], bos_token_id=1)),
    "hunyuan-moe": dict(model="hunyuan_v1_moe", tokenizer="bpe", gpt2_vocab=True, config=dict(TEXT, head_dim=8, num_experts=3,
        moe_topk=[2, 2], tie_word_embeddings=True), given=dict(moe_intermediate_size=[48, 48], num_shared_expert=[1, 1])),
    "hunyuan-moe-old": dict(model="hunyuan_v1_moe", tokenizer="bpe", gpt2_vocab=True, config=dict(TEXT, hidden_size=256,
        num_attention_heads=2, num_key_value_heads=1, head_dim=128, num_experts=3, moe_topk=[2, 2], max_position_embeddings=32768),
        drop=("head_dim",), old=dict(OLD, rope_theta=10000.0, rope_scaling=dict(ALPHA, type="dynamic"),
        moe_intermediate_size=[48, 48], num_shared_expert=[1, 1], moe_layer_num_skipped=0, use_mixed_mlp_moe=True,
        use_qk_norm=True, group_limited_greedy=False, n_group=False, topk_group=False)),
    "hunyuan-vl": wrapper("hunyuan_vl", "HunYuanVLForConditionalGeneration", dict(head_dim=8, eod_token_id=3,
        rope_parameters=dict(ALPHA, rope_type="dynamic", rope_theta=10000.0, mrope_section=[1, 1, 1, 1])),
        vision_config=HUNYUAN_TOWER),
    "cohere2moe": dict(model="cohere2_moe", tokenizer="bpe", config=dict(COHERE)),
    "cohere2moe-old": dict(model="cohere2_moe", tokenizer="bpe", extra="cohere_mtp", config=dict(COHERE,
        num_shared_experts=0), drop=("mlp_layer_types", "layer_types"), old=dict(OLD, rope_theta=50000,
        first_k_dense_replace=1, num_nextn_predict_layers=1, expert_selection_fn="sigmoid", norm_topk_prob=True)),
    "granite_swa": dict(model="granite_swa", tokenizer="bpe", config=dict(GRANITE, tie_word_embeddings=True)),
    "granite_swa-old": dict(model="granite_swa", tokenizer="bpe", config=dict(GRANITE, tie_word_embeddings=False),
        drop=("layer_rope_theta",), old=dict(OLD, rope_theta=10000.0, no_rope_layers=[0, 1, 1, 1])),
    "apertus": dict(model="apertus", tokenizer="bpe", config=dict(TEXT)),
    "apertus-old": dict(model="apertus", tokenizer="bpe", config=dict(TEXT, num_hidden_layers=11), old=dict(OLD,
        rope_theta=12000000, rope_scaling=LLAMA3, qk_norm=True, post_norm=False, mlp_bias=False)),
    "hy_v3": dict(model="hy_v3", tokenizer="bpe", config=dict(TEXT, **FEW, head_dim=8, num_hidden_layers=3)),
    "hy_v3-old": dict(model="hy_v3", tokenizer="bpe", extra="hy_v3_mtp", config=dict(TEXT, **FEW, head_dim=8,
        num_hidden_layers=3), drop=("mlp_layer_types",), old=dict(OLD, rope_theta=11158840.0, route_norm=True,
        num_nextn_predict_layers=1, first_k_dense_replace=1, qk_norm=True, moe_router_use_sigmoid=True)),
    "minimax-m3": wrapper("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", dict(head_dim=8, num_hidden_layers=3,
        rotary_dim=4, num_local_experts=3, num_experts_per_tok=2, dense_intermediate_size=40, shared_intermediate_size=48,
        index_n_heads=2, index_head_dim=8, index_block_size=16, index_topk_blocks=2, index_local_blocks=1,
        layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
        mlp_layer_types=["dense", "sparse", "sparse"]), vision_config=dict(hidden_size=16, intermediate_size=24,
        num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4), projector_hidden_size=16, more=dict(
        given=dict(n_shared_experts=1, moe_layer_freq=[0, 1, 1], sparse_attention_config=dict(sparse_num_index_heads=2,
            sparse_index_dim=8, sparse_topk_blocks=2, sparse_block_size=16, sparse_local_block=1)))),
    "mimo2": dict(model="mimo_v2_flash", tokenizer="bpe", config=dict(TEXT, head_dim=8, v_head_dim=4, n_routed_experts=3,
        num_experts_per_tok=2, moe_intermediate_size=24, num_hidden_layers=6, num_key_value_heads=1, sliding_window=16,
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=5000000.0, partial_rotary_factor=0.5),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
        reference=dict(set=dict(model_type="unknown")), given=dict(swa_head_dim=8, swa_num_attention_heads=4,
        swa_v_head_dim=4, swa_num_key_value_heads=2, topk_method="noaux_tc", hybrid_layer_pattern=[0, 1, 1, 1, 1, 0],
        rope_parameters=dict(rope_type="default", rope_theta=5000000.0, partial_rotary_factor=0.5,
            sliding_attention=dict(rope_theta=10000.0)))),
    "mimo2-old": dict(hand=mimo, tokenizer="bpe", config=hub("MiMoV2ForCausalLM", "mimo_v2", num_hidden_layers=3,
        head_dim=8, v_head_dim=4, swa_head_dim=8, swa_v_head_dim=4, swa_num_attention_heads=4, num_key_value_heads=1,
        swa_num_key_value_heads=2, hybrid_layer_pattern=[0, 1, 1], moe_layer_freq=[0, 1, 1], n_routed_experts=3,
        num_experts_per_tok=2, moe_intermediate_size=24, n_group=1, topk_group=1, norm_topk_prob=True,
        scoring_func="sigmoid", topk_method="noaux_tc", rope_theta=5000000, swa_rope_theta=10000,
        partial_rotary_factor=0.5, layernorm_epsilon=1e-5, attention_value_scale=0.612, sliding_window=16,
        sliding_window_size=16, attention_chunk_size=16, tie_word_embeddings=False, add_swa_attention_sink_bias=True)),
    "step35": dict(hand=step35, tokenizer="bpe", stand_in="Fast", reference=dict(set=dict(model_type="unknown")), config=dict(HUB,
        architectures=["Step3p5ForCausalLM"], model_type="step3p5", num_hidden_layers=3, head_dim=8, num_attention_groups=1,
        attention_other_setting=dict(attention_type="sliding_attention", num_attention_heads=6, num_attention_groups=2,
            head_dim=8, true_head_dim=8), layer_types=["full_attention", "sliding_attention", "sliding_attention",
            "full_attention"], partial_rotary_factors=[0.5, 1.0, 1.0, 0.5], rope_theta=[5000000.0, 10000.0, 10000.0,
            5000000.0], rope_scaling=dict(LLAMA3, rope_type="llama3"), sliding_window=16, moe_layers_enum="1,2",
        moe_num_experts=3, moe_top_k=2, moe_intermediate_size=24, share_expert_dim=20, moe_router_scaling_factor=3.0,
        norm_expert_weight=True, moe_every_n_layer=1, moe_router_activation="sigmoid", use_moe_router_bias=True,
        rms_norm_eps=1e-5, swiglu_limits=[None, 7, 0.0], swiglu_limits_shared=[0.0, 0.0, 16.0], num_nextn_predict_layers=1,
        zero_centered=True, use_head_wise_attn_gate=True)),
    "deci": dict(hand=deci, tokenizer="llama_bpe", stand_in="Fast", config=hub("DeciLMForCausalLM", "nemotron-nas", num_hidden_layers=5,
        intermediate_size=None, num_key_value_heads=None, hidden_act="silu", rms_norm_eps=1e-5, rope_theta=500000.0,
        rope_scaling=LLAMA3, tie_word_embeddings=False, block_configs=[block(2, 1.5), block(4, 12.5),
            block(None, 0.75, linear=True), block(None, 1.5), block(None, None)])),
    "decilm": dict(hand=decilm, tokenizer="llama_bpe", remove=("num_key_value_heads",), config=hub("DeciLMForCausalLM",
        "deci", num_key_value_heads=2, num_key_value_heads_per_layer=[2, 1], hidden_act="silu", rms_norm_eps=1e-5,
        rope_theta=10000, rope_scaling=None, tie_word_embeddings=False)),
    "phi4v": dict(hand=lambda config: {name.replace("up_gate", "gate_up"): shape for name, shape in llama_like(
        config, "qkv_proj", fused_mlp=True).items()},
        tokenizer="bpe", tokenizer_config=dict(tokenizer_class="GPT2Tokenizer"), config=hub("Phi4ForCausalLMV", "phi4-siglip",
        original_max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=250000, rope_scaling=None, sliding_window=None,
        partial_rotary_factor=1.0, tie_word_embeddings=False)),
    "solar-open": dict(model="solar_open", tokenizer="bpe", special=["<|endoftext|>", "<unk>", "<|startoftext|>"],
        config=dict(TEXT, head_dim=8, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=24)),
    "jais2": dict(model="jais2", tokenizer="bpe", config=dict(TEXT)),
    "maincoder": dict(hand=with_norms, tokenizer="bpe", config=hub("MaincoderForCausalLM", "maincoder", head_dim=8,
        rms_norm_eps=1e-5, rope_theta=1000000.0, attention_bias=False, tie_word_embeddings=False)),
    "maple": dict(hand=experts(), tokenizer="bpe", config=hub("MapleForCausalLM", "maple", **FEW, head_dim=8,
        hidden_act="silu", norm_topk_prob=True, nope_on_global_attention=True, num_shared_experts=0, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"], rope_theta=10000.0, rms_norm_eps=1e-6,
        tie_word_embeddings=False)),
    "mellum": dict(model="mellum", tokenizer="bpe", config=dict(TEXT, **FEW, head_dim=8, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"])),
    "nanbeige": dict(hand=llama_like, config=hub("NanbeigeForCausalLM", "nanbeige", head_dim=8, rms_norm_eps=1e-5,
        rope_theta=70000000.0, num_loops=2, skip_loop_final_norm=True, tie_word_embeddings=False)),
    "pangu": dict(hand=llama_like, tokenizer_config=dict(add_prefix_space=False), config=hub("PanguEmbeddedForCausalLM",
        "PanguEmbedded", rms_norm_eps=1e-5, rope_theta=16000000.0, bias=True, tie_word_embeddings=True)),
    "plm": dict(hand=plm, tokenizer="bpe", config=hub("PLMForCausalLM", "plm", num_key_value_heads=4, kv_lora_rank=16,
        q_lora_rank=None, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, hidden_act="relu2", rms_norm_eps=1e-6,
        rope_theta=100000.0, tie_word_embeddings=True)),
    "rnd1": dict(hand=experts(), tokenizer="bpe", config=hub("RND1", "rnd1", **FEW, head_dim=8, mask_token_id=3,
        norm_topk_prob=True, rms_norm_eps=1e-6, rope_theta=1000000.0, tie_word_embeddings=False)),
    "grovemoe": dict(hand=experts(small=8), tokenizer="bpe", config=hub("GroveMoeForCausalLM", "grove_moe",
        **dict(FEW, num_experts=4), head_dim=8, norm_topk_prob=True, rms_norm_eps=1e-6, rope_theta=1000000.0,
        tie_word_embeddings=False)),
    "smallthinker": dict(hand=experts("gate up down", "block_sparse_moe", "primary_router", norms=False,
        length="moe_ffn_hidden_size", count="moe_num_primary_experts"), tokenizer="bpe", config=hub(
        "SmallThinkerForCausalLM", "smallthinker", head_dim=8, moe_ffn_hidden_size=24, moe_num_primary_experts=3,
        moe_num_active_primary_experts=2, moe_primary_router_apply_softmax=False, rms_norm_eps=1e-6, rope_theta=1500000.0,
        rope_layout=[0, 1], sliding_window_layout=[0, 1], sliding_window_size=16, tie_word_embeddings=False),
        remove=("intermediate_size",)),
    "llada": dict(hand=llada, tokenizer="bpe", config=dict(architectures=["LLaDAModelLM"], model_type="llada", vocab_size=384,
        d_model=32, n_heads=4, n_kv_heads=2, n_layers=2, mlp_hidden_size=48, max_sequence_length=512, rms_norm_eps=1e-5,
        rope_theta=500000.0, mask_token_id=3, eos_token_id=2, pad_token_id=2, torch_dtype="bfloat16", weight_tying=False,
        activation_type="silu", layer_norm_type="rms", rope=True, block_type="llama")),
    "llada-moe": dict(hand=experts(length="expert_intermediate_size"), tokenizer="bpe", config=hub("LLaDAMoEModelLM",
        "llada_moe", num_experts=3, num_experts_per_tok=2, expert_intermediate_size=24, head_dim=8, qk_layernorm=True,
        rms_norm_eps=1e-5, rope_theta=50000, norm_topk_prob=None, tie_word_embeddings=False)),
    "spark2_5": dict(hand=spark, tokenizer="bpe", config=hub("Spark2_5ForCausalLM", "spark2_5", head_dim=8, sliding_window=16,
        layer_types=["sliding_attention", "full_attention"], hidden_act="gelu", gate_attn_act_mode="sigmoid",
        headwise_attn_output_gate=True, rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=1000000.0, partial_rotary_factor=0.5),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)))),
    "minicpm3": dict(model="minicpm3", config=dict(TEXT, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=24,
        qk_nope_head_dim=12, qk_rope_head_dim=8)),
    "minicpm3-old": dict(model="minicpm3", config=dict(TEXT, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=24,
        qk_nope_head_dim=12, qk_rope_head_dim=8, tie_word_embeddings=False), drop=("head_dim", "v_head_dim"), old=dict(OLD,
        rope_theta=10000.0, rope_scaling=dict(type="longrope", long_factor=[1.0, 1.5, 2.0, 4.0], short_factor=[1.0, 1.0,
            1.25, 1.5], original_max_position_embeddings=512))),
    "internlm3": dict(model="internlm3", more=dict(architectures=["InternLM3ForCausalLM"]), config=dict(TEXT, head_dim=8, rope_parameters=dict(rope_type="dynamic",
        rope_theta=50000000.0, factor=6.0))),
    "janus": wrapper("janus", "JanusForConditionalGeneration", dict(model_type="llama", head_dim=8),
        vision_config=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4,
            projection_dim=32, num_image_tokens=16), vq_config=dict(embed_dim=4, num_embeddings=8, latent_channels=4,
            base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1, projection_dim=32, num_hidden_layers=1,
            image_token_embed_dim=32)),
    "sarashina2-vision": dict(hand=sarashina, config=dict(architectures=["Sarashina2VisionForCausalLM"],
        model_type="sarashina2_vision", torch_dtype="bfloat16", vision_config=dict(depth=1, embed_dim=16), text_config=dict(
            TEXT, architectures=["LlamaForCausalLM"], model_type="llama", head_dim=8, rms_norm_eps=1e-5, rope_theta=10000.0))),
    "llava-stablelm": dict(hand=stablelm_images, tokenizer="bpe", config=hub("LlavaStableLMEpochForCausalLM",
        "llava_stablelm_epoch", num_key_value_heads=4, rms_norm_eps=1e-5, norm_eps=1e-5, rope_pct=0.5, rope_theta=10000,
        use_qkv_bias=False, tie_word_embeddings=False)),
    "arctic": dict(hand=arctic, config=hub("ArcticForCausalLM", "arctic", num_local_experts=3, num_experts_per_tok=2,
        rms_norm_eps=1e-5, rope_theta=10000, moe_layer_frequency=1, parallel_attn_mlp_res=True, tie_word_embeddings=False)),
    "openelm": dict(hand=openelm, config=dict(architectures=["OpenELMForCausalLM"], model_type="openelm", vocab_size=384,
        model_dim=32, head_dim=8, num_transformer_layers=2, num_query_heads=[4, 8], num_kv_heads=[1, 2], num_gqa_groups=4,
        ffn_dim_divisor=16, ffn_multipliers=[1.15, 1.8], ffn_with_glu=True, max_context_length=512, rope_max_length=1024,
        rope_freq_constant=10000, share_input_output_layers=True, normalize_qk_projections=True, bos_token_id=1,
        eos_token_id=2, torch_dtype="bfloat16")),
    "cogvlm": dict(hand=cogvlm, config=hub("CogVLMForCausalLM", "cogvlm", head_dim=8, rms_norm_eps=1e-5, rope_theta=500000.0,
        tie_word_embeddings=False, template_version="chat", vision_config=dict(hidden_size=16))),
    "hrm_text": dict(model="hrm_text", tokenizer="bpe", config=dict(TEXT, num_key_value_heads=4, head_dim=8, H_cycles=2,
        L_cycles=2)),
    "plamo2": dict(hand=plamo, tokenizer="plamo", config=hub("Plamo2ForCausalLM", "plamo2", vocab_size=272,
        hidden_size_per_head=8, mamba_d_state=16, mamba_d_conv=4, mamba_num_heads=4, mamba_step=2, mamba_enabled=True,
        rms_norm_eps=1e-6, tie_word_embeddings=True, rope_theta=1000000.0, attention_window_size=2048)),
    "plamo3": dict(hand=plamo, tokenizer="plamo", config=hub("Plamo3ForCausalLM", "plamo3", vocab_size=272, head_dim=8,
        rms_norm_eps=1e-6, rope_theta=10000.0, rope_scaling_factor=4.0, initial_context_length=128, window_size=16,
        sliding_window_pattern=[True, False], tie_word_embeddings=True)),
    "grok": dict(hand=grok, config=hub("Grok1ForCausalLM", "grok-1", num_local_experts=3, num_experts_per_tok=2,
        embedding_multiplier_scale=78.38367176906169, output_multiplier_scale=0.5773502691896257, max_attn_value=30.0,
        rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False)),
    "grok2": dict(hand=grok2, config=hub("Grok1ForCausalLM", "git", head_dim=8, num_local_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=24, embedding_multiplier_scale=90.50966799187809, output_multiplier_scale=0.5,
        attn_logit_softcapping=30.0, router_logit_softcapping=30.0, final_logit_softcapping=50, rms_norm_eps=1e-5,
        rope_theta=208533496, rope_type="original", scaling_factor=16.0, original_max_position_embeddings=128,
        extrapolation_factor=1.0, attn_factor=1.0, beta_fast=8, beta_slow=1, attn_temperature_len=1024,
        attn_output_multiplier=0.5, residual_moe=True, tie_word_embeddings=False)),
    "wavtokenizer-dec": dict(hand=wavtokenizer, config=dict(architectures=["WavTokenizerDec"], hidden_size=66, vocab_size=384,
        n_embd_features=32, n_ff=48, n_head=1, layer_norm_epsilon=1e-6, group_norm_epsilon=1e-6, group_norm_groups=4,
        max_position_embeddings=512, n_layer=6, posnet=dict(n_embd=32, n_layer=6), convnext=dict(n_embd=32, n_layer=2))),
    "granitemoe_swa": dict(model="granitemoe_swa", tokenizer="bpe", config=dict(GRANITE, num_local_experts=3,
        num_experts_per_tok=2, shared_intermediate_size=40)),
}


@contextmanager
def as_it_can(spec: dict, folder):
    """The reference with what it lacks of a checkpoint: the code of its tokenizer."""
    import transformers
    from gguf.tensor_mapping import TensorNameMap
    from conversion.hunyuan import HunYuanMoEModel
    from tokenizer import Tiktoken
    with ExitStack() as patches:
        # Some architectures write names of their own into the table of all.
        patches.enter_context(mock.patch.dict(TensorNameMap.block_mappings_cfg))
        # The usual loader reads the config first, and stops on some that it has no class for.
        kinds = dict(Tiktoken=lambda: Tiktoken(folder),
                     Fast=lambda: transformers.PreTrainedTokenizerFast.from_pretrained(folder))
        if kind := kinds.get(spec.get("stand_in")):
            patches.enter_context(mock.patch.object(transformers.AutoTokenizer, "from_pretrained",
                lambda *_, **__: kind()))
        if spec.get("gpt2_vocab"):
            patches.enter_context(mock.patch.object(HunYuanMoEModel, "set_vocab", HunYuanMoEModel._set_vocab_gpt2))
        yield


def make_qwen_tiktoken(folder, vocab_size: int, spec: dict) -> None:
    shutil.copy(GOLDEN / "tokenizer" / "tiktoken-qwen" / "qwen.tiktoken", folder)
    config = dict(model_max_length=8192, tokenizer_class="QWenTokenizer",
        auto_map=dict(AutoTokenizer=["tokenization_qwen.QWenTokenizer", None]))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_plamo(folder, vocab_size: int, spec: dict) -> None:
    for name in ("tokenizer.jsonl", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "tokenizer" / "plamo2" / name, folder)


KINDS = {"qwen_tiktoken": make_qwen_tiktoken, "plamo": make_plamo}
