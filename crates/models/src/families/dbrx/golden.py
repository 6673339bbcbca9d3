"""Golden recipes of DBRX, by Databricks."""

DBRX = dict(d_model=16, n_heads=4, n_layers=2, max_seq_len=512, vocab_size=288, attn_config=dict(kv_n_heads=2,
    clip_qkv=8.0, rope_theta=500000.0), ffn_config=dict(ffn_hidden_size=12, moe_num_experts=4, moe_top_k=2))

CHECKPOINTS = {
    "dbrx": dict(model="dbrx", tokenizer="bpe", bare=True, config=DBRX),
    "dbrx-old": dict(model="dbrx", tokenizer="bpe", bare=True, config=DBRX,
        drop=("rope_parameters", "dtype", "num_key_value_heads"), more=dict(torch_dtype="bfloat16",
        attn_config=dict(clip_qkv=8, kv_n_heads=2, model_type="", rope_theta=500000),
        ffn_config=dict(ffn_act_fn=dict(name="silu"), ffn_hidden_size=12, model_type="", moe_jitter_eps=0.01,
        moe_num_experts=4, moe_top_k=2))),
}

WIDE = {"dbrx": dict(d_model=256, ffn_config=dict(ffn_hidden_size=256, moe_num_experts=4, moe_top_k=2))}
# The base, which transformers itself does not find.
LOGITS = dict.fromkeys(["dbrx", "dbrx-old"], dict(config=dict(rope_parameters=dict(rope_theta=500000.0))))
