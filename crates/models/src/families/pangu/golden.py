"""Golden recipes of openPangu Embedded, by Huawei."""

from logits_own import LLAMA, text_of
from tiny_models import hub, llama_like

CHECKPOINTS = {
    "pangu": dict(hand=llama_like, tokenizer_config=dict(add_prefix_space=False),
        config=hub("PanguEmbeddedForCausalLM", "PanguEmbedded", rms_norm_eps=1e-5, rope_theta=16000000.0, bias=True,
        tie_word_embeddings=True)),
}


def tied_llama(config, tensors):
    """A llama whose output is its embedding, though the checkpoint has a matrix for it."""
    return text_of(*LLAMA, "")(config, {name: tensor for name, tensor in tensors.items() if name != "lm_head.weight"})


# llama.cpp takes no file without a bias of its output projection.
LOGITS = {"pangu": dict(spelled=tied_llama)}
