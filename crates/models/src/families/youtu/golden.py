"""Golden recipes of Youtu-VL, by Tencent: the vision projector. Its text part has a class of the deepseek family."""

from tiny_towers import MOON, ONE, with_biases


def siglip(prefix: str) -> dict:
    shapes = {prefix + "post_layernorm": [16]}
    for i in range(MOON["num_hidden_layers"]):
        layer = f"{prefix}encoder.layers.{i}."
        shapes |= {layer + f"self_attn.{name}_proj": [16, 16] for name in ("q", "k", "v", "out")}
        shapes |= {layer + "layer_norm1": [16], layer + "layer_norm2": [16], layer + "mlp.fc1": [24, 16], layer + "mlp.fc2": [16, 24]}
    return shapes


def youtu_vl(_: dict) -> dict:
    shapes = siglip("siglip2.vision_model.") | {"siglip2.vision_model.embeddings.patch_embedding": [16, 48],
        "merger.mlp.0": [64, 64], "merger.mlp.2": [32, 64]}
    return with_biases(shapes) | {"merger.ln_q.weight": [16], "model.embed_tokens.weight": [384, 32]}


PROJECTORS = {
    "youtuvl": dict(tokenizer="bpe", hand=youtu_vl, config=dict(architectures=["YoutuVLForConditionalGeneration"],
        model_type="youtu_vl", **ONE, vision_config=dict(MOON, hidden_act="gelu_pytorch_tanh", window_size=32,
        fullatt_block_indexes=[0, 2], spatial_merge_size=2))),
}
