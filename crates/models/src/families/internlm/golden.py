"""Golden recipes of InternLM, by Shanghai AI Laboratory."""

from tiny_models import TEXT, layers, narrow_hub, sizes, tiny


def internlm2(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    return {
        "model.tok_embeddings.weight": [v, h],
        **layers(config, {
            "model.layers.{}.attention.wqkv.weight": [q + 2 * k, h], "model.layers.{}.attention.wo.weight": [h, q],
            "model.layers.{}.feed_forward.w1.weight": [f, h], "model.layers.{}.feed_forward.w2.weight": [h, f],
            "model.layers.{}.feed_forward.w3.weight": [f, h],
            "model.layers.{}.attention_norm.weight": [h], "model.layers.{}.ffn_norm.weight": [h]}),
        "model.norm.weight": [h], "output.weight": [v, h],
    }


CHECKPOINTS = {
    "internlm2": tiny(hand=internlm2, config=narrow_hub("InternLM2ForCausalLM", "internlm2", rope_theta=1000000,
        rope_scaling=dict(type="dynamic", factor=2.0), bias=False)),
    "internlm3": dict(model="internlm3", more=dict(architectures=["InternLM3ForCausalLM"]), config=dict(TEXT,
        head_dim=8, rope_parameters=dict(rope_type="dynamic", rope_theta=50000000.0, factor=6.0))),
}

WIDE = {"internlm2": {}}
LOGITS = {"internlm2": dict(by="reference")}
ADAPTERS = {
    "internlm2": dict(base="internlm2", targets=["wqkv", "wo", "w1"], more=dict(alora_invocation_tokens=[5, 6, 7])),
}
