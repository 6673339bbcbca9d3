"""Golden recipes of T5, by Google, and other models with its classes."""

from tiny_models import MEAN, OLD_ENCODER

T5 = dict(vocab_size=160, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=1,
    decoder_start_token_id=0)


def with_both_embeddings(tensors: dict, config) -> dict:
    return tensors | {f"{part}.embed_tokens.weight": tensors["shared.weight"].clone() for part in ("encoder", "decoder")}


CHECKPOINTS = {
    "t5": dict(model="t5", **{"class": "T5ForConditionalGeneration"}, tokenizer="unigram-t5", bare=True, config=T5,
        old=dict(OLD_ENCODER, n_positions=512, decoder_start_token_id=0)),
    "t5-gated-old": dict(model="t5", **{"class": "T5ForConditionalGeneration"}, tokenizer="unigram-t5", bare=True,
        config=dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=1),
        old=dict(OLD_ENCODER, decoder_start_token_id=0), extra=with_both_embeddings),
    "t5-encoder": dict(model="t5", **{"class": "T5EncoderModel"}, tokenizer="unigram-t5", bare=True, config=T5,
        files=MEAN),
    **{f"{model}-encoder": dict(model=model, **{"class": f"{model.upper()}EncoderModel"}, tokenizer="unigram-t5", bare=True,
        config=T5, reference=dict(set=dict(architectures=["T5EncoderModel"]))) for model in ("mt5", "umt5")},
}

# The first T5 divide predictions by the root of the width, llama.cpp does not.
LOGITS = {"t5": dict(config=dict(scale_decoder_outputs=False))}
