"""Golden recipes of Falcon, by TII."""

from headers import RMS, Header, heads, ssm
from tiny_models import END, OLD, norms, stack


def falcon() -> dict:
    return {"transformer.word_embeddings.weight": [384, 32], **norms("transformer.ln_f"), "lm_head.weight": [384, 32],
            **stack({
                **norms("transformer.h.{}.input_layernorm"),
                    "transformer.h.{}.self_attention.query_key_value.weight": [48, 32],
                "transformer.h.{}.self_attention.dense.weight": [32, 32],
                    "transformer.h.{}.mlp.dense_h_to_4h.weight": [128, 32],
                "transformer.h.{}.mlp.dense_4h_to_h.weight": [32, 128]})}


H1 = dict(mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=8, mamba_rms_norm=True,
    head_dim=8, key_multiplier=0.390625, attention_in_multiplier=1.25, attention_out_multiplier=0.9375,
    ssm_in_multiplier=1.1, ssm_out_multiplier=0.23570226, embedding_multiplier=5.656854249492381,
    lm_head_multiplier=0.0390625, mlp_multipliers=[0.8838834764831844, 0.5859375],
    ssm_multipliers=[0.35355339059327373, 0.25, 0.3535, 0.5, 0.35355339059327373])

CHECKPOINTS = {
    "falcon": dict(model="falcon", tokenizer="bpe", reference=dict(set=dict(num_kv_heads=1))),
    "falcon-old": dict(hand=falcon(), tokenizer="bpe", config=dict(END, architectures=["RWForCausalLM"],
        model_type="RefinedWebModel", hidden_size=32, n_head=4, n_layer=2, layer_norm_epsilon=1e-5, multi_query=True,
        parallel_attn=True, alibi=False, bias=False)),
    "falcon-40b": dict(model="falcon", tokenizer="bpe", config=dict(new_decoder_architecture=True, num_kv_heads=2,
        tie_word_embeddings=False)),
    "falcon-rw": dict(model="falcon", tokenizer="bpe", config=dict(multi_query=False, alibi=True)),
    "falcon-h1": dict(model="falcon_h1", tokenizer="bpe", config=H1),
    "falcon-h1-old": dict(model="falcon_h1", tokenizer="bpe", config=dict(H1, tie_word_embeddings=True,
        mamba_rms_norm=False), old=dict(OLD, rope_theta=100000000000.0, rope_scaling=None)),
}

WIDE = {"falcon": {}, "falcon-40b": dict(num_attention_heads=8)}
LOGITS = {
    "falcon-rw": dict(config=dict(alibi=False)),
    "falcon-h1": dict(config=dict(mamba_norm_before_gate=False)),
    # The reference writes no output matrix where it is the embedding, which has a multiplier of its own.
    "falcon-h1-old": dict(config=dict(lm_head_multiplier=5.656854249492381)),
    # Falcon's first name. libllama takes its GELU from a table of f16, which is too coarse to compare with.
    "falcon-old": dict(spelled=lambda config, tensors: (config | dict(
        architectures=["FalconForCausalLM"], model_type="falcon", num_attention_heads=config["n_head"],
        num_hidden_layers=config["n_layer"]), tensors)),
}
RECORDS = {"falcon": None}


def falcon_h1_header():
    """Falcon-H1 1.5B: Mamba 2 and attention side by side in every layer."""
    h = Header("falcon-h1", 2048, 4, 65537, 4096, **RMS, **heads(8, 2, 128), **ssm(3072, 256, 48, 1))
    for i in range(4):
        h.norms(i, "attn_norm")
        h.mamba2(i, 3072, 256, 1, 48, norm=False)
        h.attention(i, 8, 2, 128)
        h.add(f"blk.{i}.ffn_norm", 2048)
        h.mlp(i)
    return h.ends()


MEMORY = {"falcon-h1": falcon_h1_header}
