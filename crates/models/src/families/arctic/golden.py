"""Golden recipes of Arctic, by Snowflake."""

from tiny_models import hub, layers, llama_like


def arctic(config: dict) -> dict:
    h, f = config["hidden_size"], config["intermediate_size"]
    parts = {"residual_mlp": h} | {f"block_sparse_moe.experts.{x}": f for x in range(config["num_local_experts"])}
    layer = {"residual_layernorm": [h], "block_sparse_moe.gate": [config["num_local_experts"], h]}
    for part, rows in parts.items():
        layer |= {f"{part}.w1": [rows, h], f"{part}.w2": [h, rows], f"{part}.w3": [rows, h]}
    return {name: shape for name, shape in llama_like(config).items() if ".mlp." not in name} | layers(
        config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})


CHECKPOINTS = {
    "arctic": dict(hand=arctic, config=hub("ArcticForCausalLM", "arctic", num_local_experts=3, num_experts_per_tok=2,
        rms_norm_eps=1e-5, rope_theta=10000, moe_layer_frequency=1, parallel_attn_mlp_res=True,
        tie_word_embeddings=False)),
}

LOGITS = {"arctic": dict(by="reference")}
