"""Golden recipes of openPangu Embedded, by Huawei."""

from tiny_models import hub, llama_like

CHECKPOINTS = {
    "pangu": dict(hand=llama_like, tokenizer_config=dict(add_prefix_space=False),
        config=hub("PanguEmbeddedForCausalLM", "PanguEmbedded", rms_norm_eps=1e-5, rope_theta=16000000.0, bias=True,
        tie_word_embeddings=True)),
}
