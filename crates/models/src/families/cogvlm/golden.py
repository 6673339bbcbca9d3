"""Golden recipes of CogVLM, by THUDM: text and images."""

from tiny_models import hub, layers, sizes
from tiny_towers import MOON, ONE, with_biases


def cogvlm(config: dict) -> dict:
    v, h, f, q, k = sizes(config)
    layer = {"input_layernorm": [h], "post_attention_layernorm": [h]}
    for part in ("language", "vision"):
        layer |= {f"self_attn.{part}_expert_query_key_value": [q + 2 * k, h], f"self_attn.{part}_expert_dense": [h, q],
                  f"mlp.{part}_mlp.gate_proj": [f, h], f"mlp.{part}_mlp.up_proj": [f, h], f"mlp.{part}_mlp.down_proj": [h, f]}
    return {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h],
            "model.vision.boi": [1, 1, h], **layers(config, {
                f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})}


CHECKPOINTS = {
    "cogvlm": dict(hand=cogvlm, config=hub("CogVLMForCausalLM", "cogvlm", head_dim=8, rms_norm_eps=1e-5,
        rope_theta=500000.0, tie_word_embeddings=False, template_version="chat", vision_config=dict(hidden_size=16))),
}


def cogvlm_tower(_: dict) -> dict:
    shapes, tower = {"model.vision.patch_embedding.proj": [16, 3, 4, 4], "model.vision.linear_proj.norm1": [32]}, "model.vision."
    for i in range(MOON["num_hidden_layers"]):
        layer = f"{tower}transformer.layers.{i}."
        shapes |= {layer + "input_layernorm": [16], layer + "post_attention_layernorm": [16],
                   layer + "attention.query_key_value": [48, 16], layer + "attention.dense": [16, 16],
                   layer + "mlp.fc1": [24, 16], layer + "mlp.fc2": [16, 24]}
    return with_biases(shapes) | {
        tower + "boi": [1, 1, 32], tower + "eoi": [1, 1, 32], tower + "patch_embedding.cls_embedding": [1, 16],
        tower + "patch_embedding.position_embedding.weight": [17, 16], tower + "linear_proj.linear_proj.weight": [32, 16],
        tower + "linear_proj.gate_proj.weight": [48, 32], tower + "linear_proj.dense_h_to_4h.weight": [48, 32],
        tower + "linear_proj.dense_4h_to_h.weight": [32, 48], "model.embed_tokens.weight": [384, 32]}


PROJECTORS = {
    "cogvlm": dict(tokenizer="bpe", hand=cogvlm_tower, config=dict(architectures=["CogVLMForCausalLM"], **ONE,
        vision_config=dict(MOON, num_heads=2, image_size=16, layer_norm_eps=1e-5))),
}


def text_spelled(config, tensors):
    """Llama with its projections split: the experts of text alone."""
    kept = {}
    for name, tensor in tensors.items():
        if "vision" in name:
            continue
        if "query_key_value" in name:
            rows = config["num_attention_heads"] * config["head_dim"]
            parts = zip("qkv", tensor.split([rows, (len(tensor) - rows) // 2, (len(tensor) - rows) // 2]))
            kept |= {name.replace("language_expert_query_key_value", f"{x}_proj"): part.contiguous() for x, part in parts}
        else:
            kept[name.replace("language_expert_dense", "o_proj").replace("language_mlp.", "")] = tensor
    config = {key: value for key, value in config.items() if key not in ("auto_map", "vision_config")}
    return config | dict(architectures=["LlamaForCausalLM"], model_type="llama"), kept


LOGITS = {"cogvlm": dict(spelled=text_spelled)}
