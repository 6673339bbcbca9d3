"""Golden recipes of Dream, by HKU: a diffusion model."""

from headers import ROPE, plain_layer
from tiny_models import hub, llama_like


def with_bias(config: dict) -> dict:
    """A llama with biases of queries, keys and values, as Qwen 2 has."""
    tensors = llama_like(config)
    return tensors | {name.replace(".weight", ".bias"): shape[:1] for name, shape in tensors.items()
                      if any(f".{x}_proj." in name for x in "qkv")}


CHECKPOINTS = {
    "dream": dict(hand=with_bias, tokenizer="bpe", config=hub("DreamModel", "Dream", rms_norm_eps=1e-6,
        rope_theta=1000000.0, rope_scaling=None, mask_token_id=3, hidden_act="silu", tie_word_embeddings=False,
        use_sliding_window=False, sliding_window=None, max_window_layers=2)),
}

WIDE = {"dream": {}}
LOGITS_FILES = {"dream": (plain_layer(bias=True), ROPE | {"attention.causal": False})}
