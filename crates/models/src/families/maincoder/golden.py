"""Golden recipes of Maincoder, by Maincode."""

from tiny_models import hub, with_norms

CHECKPOINTS = {
    "maincoder": dict(hand=with_norms, tokenizer="bpe", config=hub("MaincoderForCausalLM", "maincoder", head_dim=8,
        rms_norm_eps=1e-5, rope_theta=1000000.0, attention_bias=False, tie_word_embeddings=False)),
}

LOGITS = {"maincoder": dict(by="reference")}
