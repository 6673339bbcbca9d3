"""Golden recipes of LLaDA, by inclusionAI: diffusion models."""

from tiny_models import hub, layers, mixtures


def llada(config: dict) -> dict:
    v, h, f = config["vocab_size"], config["d_model"], config["mlp_hidden_size"]
    k = config["n_kv_heads"] * h // config["n_heads"]
    layer = {"attn_norm": [h], "q_proj": [h, h], "k_proj": [k, h], "v_proj": [k, h], "attn_out": [h, h], "ff_norm": [h],
             "ff_proj": [f, h], "up_proj": [f, h], "ff_out": [h, f]}
    return {"model.transformer.wte.weight": [v, h], "model.transformer.ln_f.weight": [h],
            "model.transformer.ff_out.weight": [v, h], **layers(dict(num_hidden_layers=config["n_layers"]), {
                f"model.transformer.blocks.{{}}.{name}.weight": shape for name, shape in layer.items()})}


CHECKPOINTS = {
    "llada": dict(hand=llada, tokenizer="bpe", config=dict(architectures=["LLaDAModelLM"], model_type="llada",
        vocab_size=384, d_model=32, n_heads=4, n_kv_heads=2, n_layers=2, mlp_hidden_size=48, max_sequence_length=512,
        rms_norm_eps=1e-5, rope_theta=500000.0, mask_token_id=3, eos_token_id=2, pad_token_id=2,
        torch_dtype="bfloat16", weight_tying=False, activation_type="silu", layer_norm_type="rms", rope=True,
        block_type="llama")),
    "llada-moe": dict(hand=mixtures(length="expert_intermediate_size"), tokenizer="bpe", config=hub("LLaDAMoEModelLM",
        "llada_moe", num_experts=3, num_experts_per_tok=2, expert_intermediate_size=24, head_dim=8, qk_layernorm=True,
        rms_norm_eps=1e-5, rope_theta=50000, norm_topk_prob=None, tie_word_embeddings=False)),
}

LOGITS = {"llada": dict(by="reference"), "llada-moe": dict(by="reference")}
