"""Golden recipes of PLaMo, by Preferred Networks."""

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
    "plamo3": dict(hand=plamo, tokenizer="plamo", config=hub("Plamo3ForCausalLM", "plamo3", vocab_size=272, head_dim=8,
        rms_norm_eps=1e-6, rope_theta=10000.0, rope_scaling_factor=4.0, initial_context_length=128, window_size=16,
        sliding_window_pattern=[True, False], tie_word_embeddings=True)),
}


def make_plamo(folder, vocab_size: int, spec: dict) -> None:
    for name in ("tokenizer.jsonl", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "tokenizer" / "plamo2" / name, folder)


TOKENIZERS = {"plamo": make_plamo}

LOGITS = {"plamo": dict(by="reference"), "plamo3": dict(by="reference")}
