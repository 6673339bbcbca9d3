"""Helpers for LOGITS of the families' golden.py: spellings of the text part of a wrapper, and models composed from parts
of transformers."""

import json


def text_of(architecture, model_type, *prefixes, **more):
    """A spelling: the text part of a wrapper, whose tensors begin with one of the prefixes."""
    def spelled(config, tensors):
        text = config.get("text_config", config) | dict(architectures=[architecture], model_type=model_type) | more
        text.pop("auto_map", None)
        kept = {}
        for name, tensor in tensors.items():
            start = next((start for start in prefixes if name.startswith(start)), None)
            if start is not None or name == "lm_head.weight":
                name = name.removeprefix(start or "")
                kept[name if name.startswith(("model.", "lm_head.")) else f"model.{name}"] = tensor
        return text | dict(tie_word_embeddings="lm_head.weight" not in kept), kept
    return spelled


LLAMA = ("LlamaForCausalLM", "llama")


def read(folder):
    from safetensors.torch import load_file
    config = json.loads((folder / "config.json").read_text())
    return config, {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}


def loaded(model, tensors):
    """The model in f32 with these tensors, all of which it must take."""
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected and not [name for name in missing if "rotary" not in name], (missing, unexpected)
    return model.float().eval()


def stacked(tensors, layer, n):
    """Experts of one layer as transformers has them."""
    import torch
    part = lambda name: torch.stack([tensors.pop(f"{layer}experts.{x}.{name}_proj.weight") for x in range(n)])
    gate, up, down = part("gate"), part("up"), part("down")
    return {f"{layer}experts.gate_up_proj": torch.cat([gate, up], dim=1), f"{layer}experts.down_proj": down}


def dense(folder, rows, output=None):
    """`rows (n, width)` times the matrix `output` of the model, or else those that sentence-transformers has after the pooling; None
    without either."""
    from safetensors.torch import load_file
    if output:
        return rows @ load_file(folder / "model.safetensors")[output].float().numpy().T
    files = sorted(folder.glob("[0-9]_Dense/model.safetensors"))
    for file in files:
        rows = rows @ load_file(file)["linear.weight"].float().numpy().T
    return rows if files else None


def first_of_equal(model):
    """`topk` takes the first of equal values. Sparse attention has many equal scores, among which torch chooses freely."""
    import torch

    def topk(values, k, dim=-1, largest=True, sorted=True):
        found = torch.sort(values, dim=dim, descending=largest, stable=True)
        return torch.return_types.topk((found.values.narrow(dim, 0, k), found.indices.narrow(dim, 0, k)))
    torch.topk = torch.Tensor.topk = topk
