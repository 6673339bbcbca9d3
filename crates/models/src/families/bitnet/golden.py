"""Golden recipes of BitNet b1.58, by Microsoft."""

from tiny_models import TEXT, hub, layers, sizes


def bitnet(config: dict) -> dict:
    """The names that the reference knows. Sums of the matrices are exact in f32, whatever the order of the addition."""
    v, h, f, q, k = sizes(config)
    names = {"self_attn.q_proj": [q, h], "self_attn.k_proj": [k, h], "self_attn.v_proj": [k, h], "self_attn.o_proj": [h, q],
             "mlp.gate_proj": [f, h], "mlp.up_proj": [f, h], "mlp.down_proj": [h, f]}
    matrices = {f"model.layers.{{}}.{name}.weight": f"grid {rows}x{columns}" for name, (rows, columns) in names.items()}
    norms = {"input_layernorm": [h], "post_attention_layernorm": [h], "self_attn.inner_attn_ln": [h], "mlp.ffn_layernorm": [f]}
    return {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], **layers(config, matrices | {
        f"model.layers.{{}}.{name}.weight": shape for name, shape in norms.items()})}


CHECKPOINTS = {
    "bitnet": dict(hand=bitnet, tokenizer="spm", config=hub("BitnetForCausalLM", "bitnet", hidden_act="silu",
        rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True, weight_bits=1, input_bits=8)),
}


def ternary(config: dict, tensors: dict):
    """Norms by the names of transformers, and matrices rounded to three values, as the layers do each time they run."""
    renamed = {"inner_attn_ln": "attn_sub_norm", "ffn_layernorm": "ffn_sub_norm"}
    out = {}
    for name, tensor in tensors.items():
        for old, new in renamed.items():
            name = name.replace(old, new)
        if "_proj." in name:
            scale = tensor.float().abs().mean().clamp(min=1e-5)
            tensor = (tensor.float() / scale).round().clamp(-1, 1) * scale
        out[name] = tensor
    return config, out


LOGITS = {"bitnet": dict(spelled=ternary)}
