"""Makes golden/logits/ of RWKV 6 and 7 and of Qwen with the latter: what the package `rwkv` of their author predicts.

Needs rwkv (PyPI), torch, safetensors, and what logits.py needs. transformers does not have these
families. The package reads the author's .pth files, so the tensors get the author's names again.
What it does is set by the environment before it is loaded, so each checkpoint has a process of its own.
Of Qwen with RWKV 7 the time mix is the package's, without the norm of heads that these models lack, and the rest
Qwen 2's; libllama cannot tell of heads this small, because it takes 64 elements at a time. Files as logits.py writes
them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from families import LOGITS


def one(folder, out, name):
    """The checkpoint NAME, in a process whose environment is set."""
    import torch
    from safetensors.torch import load_file

    from predictions import tokens_of, write

    if (rules := LOGITS[name].get("names")) is None:
        return hybrid(folder, out, name)
    tensors = {}
    for key, tensor in load_file(folder / "model.safetensors").items():
        is_narrow = "_lora.lora." in key and key.endswith(".weight")
        for expression, to in rules:
            key = re.sub(expression, to, key)
        tensors[key] = (tensor.T if is_narrow else tensor).float().contiguous()
    tokens = tokens_of(json.loads((folder / "config.json").read_text()))
    with tempfile.TemporaryDirectory() as scratch:
        torch.save(tensors, f"{scratch}/x.pth")
        from rwkv.model import RWKV

        model = RWKV(f"{scratch}/x", "cpu fp32")
        rows, _ = model.forward(tokens, None, full_output=True)
    write(out, name, tokens, rows.float().numpy())


def hybrid(folder, out, name):
    """Qwen 2 with the time mix of RWKV 7 in place of attention."""
    import torch
    from safetensors.torch import load_file
    from torch.nn import functional

    from predictions import tokens_of, write

    # Functions stay open to what follows.
    torch.jit.script = lambda function: function
    from rwkv.model import RWKV_x070_TMix_seq

    functional.group_norm = lambda x, **_: x
    config = json.loads((folder / "config.json").read_text())
    tokens = tokens_of(config)
    tensors = {key: tensor.float() for key, tensor in load_file(folder / "model.safetensors").items()}
    n, size = config["hidden_size"], config["head_size"]
    x = tensors["model.embed_tokens.weight"][tokens]
    first = None
    for i in range(config["num_hidden_layers"]):
        layer = {key.removeprefix(f"model.layers.{i}."): tensor for key, tensor in tensors.items()}
        mix = {key.removeprefix("self_attn.time_mixer."): tensor for key, tensor in layer.items()}
        norm = lambda x, name: functional.rms_norm(x, (n,), layer[f"{name}.weight"], config["rms_norm_eps"])
        shares = list(mix["x_x"].reshape(-1, n))
        # A gate of one for every element, where there is none: twice the sigmoid of zero.
        gate = [mix[key] if key in mix else torch.full(shape, value)
                for key, shape, value in (("g1", (n, 1), 0.0), ("g2", (1, n), 2.0))]
        vectors = {key: mix[key].flatten() for key in ("w0", "a0", "v0", "k_k", "k_a", "r_k")}
        made, _, _, first = RWKV_x070_TMix_seq(
            i, n // size, size, norm(x, "input_layernorm"), torch.zeros(n), first, torch.zeros(n // size, size, size),
            *shares, *shares[:6 - len(shares)], vectors["w0"], mix["w1"], mix["w2"], vectors["a0"], mix["a1"],
                mix["a2"],
            vectors["v0"], mix["v1"], mix["v2"], *gate, vectors["k_k"], vectors["k_a"], vectors["r_k"],
            *(mix[f"{part}.weight"].T for part in ("receptance", "key", "value", "output")), None, None)
        x = x + made
        h = norm(x, "post_attention_layernorm")
        up, down = layer["mlp.up_proj.weight"], layer["mlp.down_proj.weight"]
        x = x + (functional.silu(h @ layer["mlp.gate_proj.weight"].T) * (h @ up.T)) @ down.T
    x = functional.rms_norm(x, (n,), tensors["model.norm.weight"], config["rms_norm_eps"])
    write(out, name, tokens, (x @ tensors["lm_head.weight"].T).numpy())


def make(ctx):
    for name, special in LOGITS.items():
        if special and special.get("by") == "rwkv" and ctx.wants(name):
            switches = dict(RWKV_JIT_ON="0", RWKV_CUDA_ON="0") | special["switches"]
            command = [sys.executable, __file__, ctx.checkpoint(name), ctx.golden / "logits", name]
            subprocess.run(command, env=os.environ | switches, check=True)


if __name__ == "__main__":
    one(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
