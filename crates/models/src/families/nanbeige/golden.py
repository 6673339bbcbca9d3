"""Golden recipes of Nanbeige 4.2, by Nanbeige."""

from tiny_models import hub, llama_like

CHECKPOINTS = {
    "nanbeige": dict(hand=llama_like, config=hub("NanbeigeForCausalLM", "nanbeige", head_dim=8, rms_norm_eps=1e-5,
        rope_theta=70000000.0, num_loops=2, skip_loop_final_norm=True, tie_word_embeddings=False)),
}

WIDE = {"nanbeige": dict(head_dim=64)}

LOGITS = {"nanbeige": dict(by="reference")}
