"""Golden recipes of Mamba: state-space models without attention."""

from headers import RMS, Header, ssm
from tiny_models import END, stack


def mamba() -> dict:
    mixer = {"A_log": [64, 8], "D": [64], "conv1d.weight": [64, 1, 4], "conv1d.bias": [64],
        "in_proj.weight": [128, 32],
             "x_proj.weight": [18, 64], "dt_proj.weight": [64, 2], "dt_proj.bias": [64], "out_proj.weight": [32, 64]}
    return {"backbone.embedding.weight": [384, 32], "lm_head.weight": [384, 32], "backbone.norm_f.weight": [32],
            **stack({"backbone.layers.{}.norm.weight": [32],
                      **{"backbone.layers.{}.mixer." + name: shape for name, shape in mixer.items()}})}


def codestral() -> dict:
    mixer = {"A_log": [4], "D": [4], "dt_bias": [4], "conv1d.weight": [96, 1, 4], "conv1d.bias": [96],
             "in_proj.weight": [164, 32], "norm.weight": [64], "out_proj.weight": [32, 64]}
    return {"model.backbone.embeddings.weight": [384, 32], "model.lm_head.weight": [384, 32],
            "model.backbone.norm_f.weight": [32],
            **stack({"model.backbone.layers.{}.norm.weight": [32],
                      **{"model.backbone.layers.{}.mixer." + name: shape for name, shape in mixer.items()}})}


CHECKPOINTS = {
    "mamba": dict(model="mamba", tokenizer="bpe", bare=True, config=dict(END, hidden_size=32, num_hidden_layers=2,
        state_size=8)),
    "mamba-old": dict(hand=mamba(), tokenizer="bpe", same={"lm_head.weight": "backbone.embedding.weight"},
        config=dict(architectures=["MambaForCausalLM"], d_model=32, n_layer=2, d_state=8, vocab_size=384, ssm_cfg={},
        rms_norm=True)),
    "mamba-untied": dict(hand=mamba(), tokenizer="bpe", vocab_size=384, config=dict(architectures=["MambaLMHeadModel"], d_model=32,
        n_layer=2, d_state=8, vocab_size=379, ssm_cfg={})),
    "falcon-mamba": dict(model="falcon_mamba", tokenizer="bpe", bare=True, config=dict(END, hidden_size=32,
        num_hidden_layers=2, state_size=8, tie_word_embeddings=False)),
    "mamba2": dict(model="mamba2", tokenizer="bpe", bare=True, config=dict(END, hidden_size=32, num_hidden_layers=2,
        state_size=8, head_dim=16, num_heads=4, n_groups=2)),
    "mamba2-codestral": dict(hand=codestral(), tokenizer="spm", config=dict(END, architectures=["Mamba2ForCausalLM"],
        model_type="mamba2", hidden_size=32, num_hidden_layers=2, state_size=8, head_dim=16, n_groups=2,
        intermediate_size=64, layer_norm_epsilon=1e-5)),
}

LOGITS = {
    "falcon-mamba": dict(config=dict(mixer_rms_eps=1e-5)),
    # transformers does not read the names of these; with others it is golden/logits/mamba.bin and mamba2.bin.
    "mamba-old": None,
    "mamba-untied": None,
    "mamba2-codestral": None,
}


def mamba_header():
    """Mamba 2.8B: states alone."""
    h = Header("mamba", 2560, 4, 50280, 0, **RMS, **ssm(5120, 16, 160), **{"attention.head_count": 0})
    for i in range(4):
        h.norms(i, "attn_norm")
        h.mamba(i, 5120, 16, 160)
    return h.ends(output=False)


MEMORY = {"mamba": mamba_header}
