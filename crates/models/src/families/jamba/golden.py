"""Golden recipes of Jamba, by AI21: a hybrid of state-space and attention layers."""

from headers import RMS, Header, ssm
from tiny_models import OLD

CHECKPOINTS = {
    "jamba": dict(model="jamba", config=dict(num_hidden_layers=4, attn_layer_period=2, attn_layer_offset=1,
        num_experts=2, num_experts_per_tok=1, mamba_d_state=8, use_mamba_kernels=False)),
    "jamba-tied": dict(model="jamba", config=dict(num_hidden_layers=3, attn_layer_period=3, attn_layer_offset=2,
        expert_layer_period=3, num_experts=2, mamba_d_state=8, mamba_dt_rank=4, tie_word_embeddings=True,
        use_mamba_kernels=False), old=OLD),
}


def jamba_header():
    """Jamba Mini: Mamba in seven of eight layers, mixtures in every other one."""
    kv = [0, 0, 0, 0, 8, 0, 0, 0]
    h = Header("jamba", 4096, 8, 65536, 14336, **RMS, **ssm(8192, 16, 256),
               **{"attention.head_count": 32, "attention.head_count_kv": kv, "expert_count": 16,
                  "expert_used_count": 2})
    for i in range(8):
        h.norms(i, "attn_norm", "ffn_norm")
        if kv[i]:
            h.attention(i, 32, 8, 128)
        else:
            h.mamba(i, 8192, 16, 256, norms=True)
        if i % 2:
            h.experts(i, 16, 14336)
        else:
            h.mlp(i)
    return h.ends()


MEMORY = {"jamba": jamba_header}
