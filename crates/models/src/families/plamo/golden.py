"""Golden recipes of PLaMo, by Preferred Networks."""

import json
import shutil

from lib import GOLDEN
from tiny_models import hub


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


def plamo1(config: dict) -> dict:
    """The reference takes no other width."""
    v, h, f = config["vocab_size"], config["hidden_size"], config["intermediate_size"]
    names = {"norm": [h], "self_attn.q_proj": [h, h], "self_attn.k_proj": [640, h], "self_attn.v_proj": [640, h],
             "self_attn.o_proj": [h, h], "mlp.gate_proj": [f, h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f]}
    return {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h],
            "model.layers.layers.0.self_attn.rotary_emb.inv_freq": "index 64 F32",
            **{f"model.layers.layers.0.{name}.weight": shape for name, shape in names.items()}}


CHECKPOINTS = {
    "plamo": dict(hand=plamo1, config=hub("PlamoForCausalLM", "plamo", hidden_size=5120,
        intermediate_size=16, num_hidden_layers=1, num_attention_heads=40, num_key_value_heads=40, n_shared_head=8,
        rms_norm_eps=1e-6, max_position_embeddings=4096)),
    "plamo2": dict(hand=plamo, tokenizer="plamo", config=hub("Plamo2ForCausalLM", "plamo2", vocab_size=272,
        hidden_size_per_head=8, mamba_d_state=16, mamba_d_conv=4, mamba_num_heads=4, mamba_step=2, mamba_enabled=True,
        rms_norm_eps=1e-6, tie_word_embeddings=True, rope_theta=1000000.0, attention_window_size=2048)),
    "plamo3": dict(ahead=True, hand=plamo, tokenizer="plamo3", config=hub("Plamo3ForCausalLM", "plamo3", vocab_size=272, head_dim=8,
        rms_norm_eps=1e-6, rope_theta=10000.0, rope_scaling_factor=4.0, initial_context_length=128, window_size=16,
        sliding_window_pattern=[True, False], tie_word_embeddings=True)),
}


def make_plamo(golden: str):
    def make(folder, vocab_size: int, spec: dict) -> None:
        for name in ("tokenizer.jsonl", "tokenizer_config.json"):
            shutil.copy(GOLDEN / "tokenizer" / golden / name, folder)
        # A template that renders messages as they are is one for tests of tokenizers.
        path = folder / "tokenizer_config.json"
        config = {key: value for key, value in json.loads(path.read_text()).items() if key != "chat_template"}
        path.write_text(json.dumps(config, indent=1) + "\n")
    return make


TOKENIZERS = {"plamo": make_plamo("plamo2"), "plamo3": make_plamo("plamo3")}


def plamo2_logits(folder, tokens):
    """PLaMo 2 by its authors' code, in torch. llama.cpp takes the width of the rotation from the first layer, which has no heads, and
    never returns."""
    import torch
    from logits_own import read
    config, tensors = read(folder)
    n, width, d_state = config["mamba_num_heads"], config["hidden_size_per_head"], config["mamba_d_state"]
    q, k = config["num_attention_heads"], config["num_key_value_heads"]
    silu, length = torch.nn.functional.silu, len(tokens)

    def normed(x, weight, offset=0.0):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * (weight + offset)

    def rotated(x):
        angles = torch.arange(length)[:, None] / config["rope_theta"] ** (torch.arange(0, width, 2) / width)
        cos, sin = (torch.cat([f(angles)] * 2, -1)[:, None] for f in (torch.cos, torch.sin))
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def attention(x, part):
        rows = (x @ part("qkv_proj.weight").T).split([q * width, k * width, k * width], -1)
        query, key, value = (row.reshape(length, -1, width) for row in rows)
        query = rotated(normed(query, part("q_weight")))
        key = rotated(normed(key, part("k_weight")))
        key, value = (row.repeat_interleave(q // k, 1) for row in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query, key) / width ** 0.5
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf")).softmax(-1)
        return torch.einsum("hqk,khd->qhd", scores, value).reshape(length, -1) @ part("o_proj.weight").T

    def mamba(x, part):
        z, x = (x @ part("in_proj.weight").T).reshape(length, n, 2, width).unbind(2)
        x, kernel = x.reshape(length, -1), part("conv1d.weight")[:, 0]
        padded = torch.cat([torch.zeros(kernel.shape[1] - 1, x.shape[1]), x])
        x = silu(sum(padded[i:i + length] * kernel[:, i] for i in range(kernel.shape[1])))
        b, c, dt = (x @ part("bcdt_proj.weight").T).split([d_state, d_state, 64], -1)
        b, c, dt = (normed(row, part(f"{name}_norm_weight")) for row, name in zip((b, c, dt), ("B", "C", "dt")))
        dt = torch.nn.functional.softplus(dt @ part("dt_proj.weight").T + part("dt_bias"))
        x, state, out = x.reshape(length, n, width), torch.zeros(n, width, d_state), []
        for t in range(length):
            decay = torch.exp(-dt[t] * part("A_log").exp())[:, None, None]
            state = state * decay + (dt[t][:, None] * x[t])[..., None] * b[t]
            out.append(state @ c[t] + x[t] * part("D")[:, None])
        return (torch.stack(out) * silu(z)).reshape(length, -1) @ part("out_proj.weight").T

    x = tensors["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.layers.{i}."
        part = lambda name: tensors[f"{layer}mixer.{name}"]
        norm = lambda name: tensors[f"{layer}{name}.weight"]
        mixer = mamba if f"{layer}mixer.A_log" in tensors else attention
        x = x + normed(mixer(normed(x, norm("pre_mixer_norm"), 1.0), part), norm("post_mixer_norm"), 1 / 5)
        gate, up = (normed(x, norm("pre_mlp_norm"), 1.0) @ tensors[f"{layer}mlp.gate_up_proj.weight"].T).chunk(2, -1)
        x = x + normed((silu(gate) * up) @ tensors[f"{layer}mlp.down_proj.weight"].T, norm("post_mlp_norm"), 1 / 5 ** 1.5)
    x = normed(x, tensors["model.norm.weight"], 1.0)
    return (x @ tensors["model.embed_tokens.weight"].T).numpy(), False, None


LOGITS = {"plamo": dict(by="reference"), "plamo2": dict(run=plamo2_logits), "plamo3": dict(by="reference")}
