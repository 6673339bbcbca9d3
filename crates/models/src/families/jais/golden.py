"""Golden recipes of Jais, by Inception."""

from tiny_models import END, OLD, TEXT, norms, stack


def jais() -> dict:
    names = {"attn.c_attn": [32, 96], "attn.c_proj": [32, 32], "mlp.c_fc": [32, 48], "mlp.c_fc2": [32, 48],
             "mlp.c_proj": [48, 32]}
    layer = {f"transformer.h.{{}}.{name}.weight": shape for name, shape in names.items()}
    layer |= {f"transformer.h.{{}}.{name}.bias": shape[1:] for name, shape in names.items()}
    return {"transformer.wte.weight": [384, 32], "transformer.relative_pe.slopes": "positive 4 F32", **stack({
        **norms("transformer.h.{}.ln_1", "transformer.h.{}.ln_2"), **layer}), **norms("transformer.ln_f"),
        "lm_head.weight": [384, 32]}


CHECKPOINTS = {
    # Without its lazy reading: it needs the value of a slope.
    "jais": dict(hand=jais(), tokenizer="bpe", options=dict(eager=True), config=dict(END, architectures=["JAISLMHeadModel"], model_type="jais",
        n_positions=64, n_embd=32, n_layer=2, n_head=4, n_inner=48, layer_norm_epsilon=1e-05,
        activation_function="swiglu", position_embedding_type="alibi", scale_attn_weights=True, mup_embeddings_scale=9.1705,
        mup_output_alpha=1.0932, mup_width_scale=0.15625, mup_scale_qk_dot_by_d=True)),
    "jais2": dict(model="jais2", tokenizer="bpe", config=TEXT),
}

CHECKPOINTS |= {
    "jais2-old": CHECKPOINTS["jais2"] | dict(old=dict(OLD, rope_theta=500000, rope_scaling=None)),
}

WIDE = {"jais2": {}}

LOGITS = {"jais": dict(by="reference")}
