"""Golden recipes of MPT, by MosaicML."""

from tiny_models import END, OLD

MPT = dict(d_model=32, n_heads=4, n_layers=2, max_seq_len=256, **END)

CHECKPOINTS = {
    "mpt": dict(model="mpt", tokenizer="bpe", bare=True, config=MPT,
        reference=dict(set=dict(architectures=["MPTForCausalLM"]))),
    "mpt-old": dict(model="mpt", tokenizer="bpe", bare=True, config=MPT, drop=("attn_config", "layer_norm_epsilon"),
        old=dict(OLD, architectures=["MPTForCausalLM"], attn_config=dict(alibi=True, alibi_bias_max=16,
        attn_impl="torch", attn_type="multihead_attention", attn_uses_sequence_id=False, clip_qkv=6.0, prefix_lm=False,
        qk_ln=False, softmax_scale=None))),
}

WIDE = {"mpt": dict(d_model=256)}


def with_largest_bias(model) -> None:
    """transformers knows this key and leaves it aside."""
    largest, build = model.config.attn_config.alibi_bias_max, model.transformer.build_mpt_alibi_tensor
    model.transformer.build_mpt_alibi_tensor = lambda *args, device: build(*args, largest, device)


LOGITS = dict.fromkeys(["mpt", "mpt-old"], dict(prepare=with_largest_bias))
