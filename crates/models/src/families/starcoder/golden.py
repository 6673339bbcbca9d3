"""Golden recipes of StarCoder, by BigCode."""

from tiny_models import OLD, tiny

CHECKPOINTS = {
    "starcoder2": tiny(model="starcoder2", tokenizer="bpe", config=dict(sliding_window=128)),
    "starcoder2-old": tiny(model="starcoder2", tokenizer="bpe", config=dict(tie_word_embeddings=False), old=dict(OLD,
        rope_theta=999999.4420358813, norm_type="layer_norm")),
    "starcoder": dict(model="gpt_bigcode", tokenizer="bpe", bare=True, config=dict(vocab_size=288, n_embd=16,
        n_layer=2, n_head=4, n_positions=512, bos_token_id=1, eos_token_id=2)),
    "starcoder-old": dict(model="gpt_bigcode", tokenizer="bpe", bare=True, drop=("multi_query", "tie_word_embeddings"),
        config=dict(vocab_size=288, n_embd=24, n_layer=2, n_head=2, n_positions=512, bos_token_id=1, eos_token_id=2,
        n_inner=96), old=dict(OLD, attention_softmax_in_fp32=True, multi_query=True, scale_attn_weights=True,
        inference_runner=0)),
}

WIDE = {"starcoder": dict(n_embd=256), "starcoder2": {}}
