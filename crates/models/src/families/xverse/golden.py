"""Golden recipes of Xverse, by Shenzhen Yuanxiang."""

from headers import ROPE, plain_layer
from tiny_models import hub, llama_like

CHECKPOINTS = {
    "xverse": dict(hand=llama_like, tokenizer="llama_bpe", remove=("num_key_value_heads",),
        config=hub("XverseForCausalLM", "xverse", num_key_value_heads=4, rms_norm_eps=1e-6,
        max_tokenizer_truncation=512, hidden_act="silu")),
}

WIDE = {"xverse": dict(num_key_value_heads=4)}
LOGITS_FILES = {"xverse": (plain_layer(), ROPE)}
