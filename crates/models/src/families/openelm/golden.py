"""Golden recipes of OpenELM, by Apple."""


def openelm(config: dict) -> dict:
    v, h, d = config["vocab_size"], config["model_dim"], config["head_dim"]
    tensors = {"transformer.token_embeddings.weight": [v, h], "transformer.norm.weight": [h]}
    for i, (q, k, f) in enumerate(zip(config["num_query_heads"], config["num_kv_heads"], (48, 64))):
        layer = {"attn.qkv_proj": [(q + 2 * k) * d, h], "attn.q_norm": [d], "attn.k_norm": [d], "attn.out_proj": [h, q * d],
                 "attn_norm": [h], "ffn_norm": [h], "ffn.proj_1": [2 * f, h], "ffn.proj_2": [h, f]}
        tensors |= {f"transformer.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return tensors


CHECKPOINTS = {
    "openelm": dict(hand=openelm, config=dict(architectures=["OpenELMForCausalLM"], model_type="openelm",
        vocab_size=384, model_dim=32, head_dim=8, num_transformer_layers=2, num_query_heads=[4, 8],
        num_kv_heads=[1, 2], num_gqa_groups=4, ffn_dim_divisor=16, ffn_multipliers=[1.15, 1.8], ffn_with_glu=True,
        max_context_length=512, rope_max_length=1024, rope_freq_constant=10000, share_input_output_layers=True,
        normalize_qk_projections=True, bos_token_id=1, eos_token_id=2, torch_dtype="bfloat16")),
}

LOGITS = {"openelm": dict(by="reference")}
