"""Golden recipes of Solar Open, by Upstage."""

from tiny_models import TEXT

CHECKPOINTS = {
    "solar-open": dict(model="solar_open", tokenizer="bpe", special=["<|endoftext|>", "<unk>", "<|startoftext|>"],
        config=dict(TEXT, head_dim=8, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=24)),
}
