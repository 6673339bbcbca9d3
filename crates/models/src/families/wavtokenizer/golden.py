"""Golden recipes of WavTokenizer: the decoder of audio codes."""


def wavtokenizer(config: dict) -> dict:
    n, w, out = config["n_embd_features"], config["posnet"]["n_embd"], {"backbone.embedding.weight": [config["vocab_size"],
        config["n_embd_features"]]}
    names = {"backbone.embed": [w, n, 7], "backbone.norm": [w], "backbone.final_layer_norm": [w],
             "head.out": [config["hidden_size"], w]}
    for i in range(config["posnet"]["n_layer"]):
        layer = {"norm": [w, 1], "q": [w, w, 1], "k": [w, w, 1], "v": [w, w, 1], "proj_out": [w, w, 1]} if i == 2 else {
            "norm": [w, 1]} if i == 5 else {"norm1": [w, 1], "conv1": [w, w, 3], "norm2": [w, 1], "conv2": [w, w, 3]}
        names |= {f"backbone.posnet.{i}.{name}": shape for name, shape in layer.items()}
    for i in range(config["convnext"]["n_layer"]):
        layer = {"dwconv": [w, 1, 7], "norm": [w], "pwconv1": [config["n_ff"], w], "pwconv2": [w, config["n_ff"]]}
        names |= {f"backbone.convnext.{i}.{name}": shape for name, shape in layer.items()}
        out[f"backbone.convnext.{i}.gamma.weight"] = [w]
    for name, shape in names.items():
        out |= {f"{name}.weight": shape, f"{name}.bias": [shape[0], 1] if "posnet" in name or name.endswith("embed") else shape[:1]}
    return out


CHECKPOINTS = {
    "wavtokenizer-dec": dict(hand=wavtokenizer, config=dict(architectures=["WavTokenizerDec"], hidden_size=66,
        vocab_size=384, n_embd_features=32, n_ff=48, n_head=1, layer_norm_epsilon=1e-6, group_norm_epsilon=1e-6,
        group_norm_groups=4, max_position_embeddings=512, n_layer=6, posnet=dict(n_embd=32, n_layer=6),
        convnext=dict(n_embd=32, n_layer=2))),
}
