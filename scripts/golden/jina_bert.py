"""Jina's BERT with linear biases by distance, which transformers does not have: the mathematics alone, in torch, on
the tensors of a checkpoint. Written after the descriptions of both published variants: that of the text embeddings,
and that of the code embeddings, which normalizes queries and keys, adds the input of a layer once more behind the
attention, and takes the second half of its first matrix as the gate.
"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


def slopes(n_head: int) -> list:
    """One for each head; powers of two, and between them for heads beyond a power of two."""
    whole = 2 ** int(math.log2(n_head))
    first = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    more = [2 ** (-8 * (i + 1) / (2 * whole)) for i in range(0, 2 * (n_head - whole), 2)]
    return first + more


def hidden(folder: Path, tokens: list) -> torch.Tensor:
    """(n, hidden_size): rows of the last layer."""
    config = json.loads((folder / "config.json").read_text())
    tensors = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    width, n_head = config["hidden_size"], config["num_attention_heads"]
    is_code = "encoder.layer.0.layer_norm_1.weight" in tensors

    def linear(name, x):
        return F.linear(x, tensors[name + ".weight"], tensors.get(name + ".bias"))

    def norm(name, x):
        return F.layer_norm(x, (width,), tensors[name + ".weight"], tensors[name + ".bias"], config["layer_norm_eps"])

    def heads(x):
        return x.view(len(tokens), n_head, -1).transpose(0, 1)

    x = tensors["embeddings.word_embeddings.weight"][tokens] + tensors["embeddings.token_type_embeddings.weight"][0]
    x = norm("embeddings.LayerNorm", x)
    at = torch.arange(len(tokens))
    biases = -torch.tensor(slopes(n_head))[:, None, None] * (at[:, None] - at[None, :]).abs()
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        query, key = linear(layer + "attention.self.query", x), linear(layer + "attention.self.key", x)
        if is_code:
            query = norm(layer + "attention.self.layer_norm_q", query)
            key = norm(layer + "attention.self.layer_norm_k", key)
        query, key, value = heads(query), heads(key), heads(linear(layer + "attention.self.value", x))
        weights = torch.softmax(query @ key.transpose(1, 2) / math.sqrt(width // n_head) + biases, dim=-1)
        seen = (weights @ value).transpose(0, 1).reshape(len(tokens), width)
        y = norm(layer + "attention.output.LayerNorm", linear(layer + "attention.output.dense", seen) + x)
        if is_code:
            y = norm(layer + "layer_norm_1", y + x)
            up, gate = linear(layer + "mlp.up_gated_layer", y).chunk(2, dim=-1)
            x = norm(layer + "layer_norm_2", linear(layer + "mlp.down_layer", F.gelu(gate) * up) + y)
        else:
            gate, up = linear(layer + "mlp.gated_layers", y).chunk(2, dim=-1)
            x = norm(layer + "mlp.layernorm", linear(layer + "mlp.wo", F.gelu(gate) * up) + y)
    return x
