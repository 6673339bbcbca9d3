"""Makes golden/recipes/snapshots/: which dtype each tensor of twelve real models gets.

The expectations are the reference's own, tests/snapshots/*.schema, folded: a run of layers with the
same tensor and dtype is one line. What the reference fetches from the Hub to check them, names and
shapes of the tensors, is stated in SNAPSHOTS of the families' golden.py, from the models' published configs and the
layouts in the reference's src/models/. Every figure in a snapshot's own heading is checked against it, and
so is every tensor name. A file reads:

  architecture, then `key value` lines of the facts that recipes ask for
  tensor LAYERS NAME DIMS      row length first; LAYERS like 0-3,7 or - for none
  [RECIPE] default             a section
  LAYERS NAME dtype            a tensor that gets another dtype than the default

Needs nothing but Python.
"""

import re


def every(n, step, last):
    """Layers below n that are the last of each `step` (or the others)."""
    return [i for i in range(n) if (i % step == step - 1) == last]


def attention(n_embd, q, kv, layers):
    return [(layers, "attn_q.weight", (n_embd, q)), (layers, "attn_k.weight", (n_embd, kv)),
            (layers, "attn_v.weight", (n_embd, kv)), (layers, "attn_output.weight", (q, n_embd))]


def dense(n_embd, n_ff, q, kv, layers):
    return attention(n_embd, q, kv, layers) + ffn(n_embd, n_ff, layers)


def ffn(n_embd, n_ff, layers, kind="", experts=()):
    down, up = (n_ff, n_embd) + experts, (n_embd, n_ff) + experts
    return [(layers, f"ffn_gate{kind}.weight", up), (layers, f"ffn_up{kind}.weight", up),
            (layers, f"ffn_down{kind}.weight", down)]


def ends(n_embd, n_vocab, tied=False):
    names = ["token_embd.weight"] + ([] if tied else ["output.weight"])
    return [(None, name, (n_embd, n_vocab)) for name in names] + [(None, "output_norm.weight", (n_embd,))]


def fold(layers):
    """[0, 1, 2, 7] -> 0-2,7"""
    if layers is None:
        return "-"
    runs = []
    for layer in sorted(layers):
        if runs and runs[-1][1] == layer - 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def split(name):
    match = re.match(r"blk\.(\d+)\.(.*)", name)
    return (int(match[1]), match[2]) if match else (None, name)


def sections(text):
    """[(recipe, default, {(tensor, dtype): layers})] of a snapshot or of our own lines."""
    found = []
    for line in text.splitlines():
        if line.startswith("["):
            recipe, default = re.fullmatch(r"\[(.*)\] (\S+)", line).groups()
            found.append((recipe, default, {}))
        elif line and not line.startswith("#"):
            name, dtype = line.rsplit(" ", 1)
            layer, name = split(name)
            layers = found[-1][2].setdefault((name, dtype), [])
            if layer is None:
                found[-1][2][name, dtype] = None
            else:
                layers.append(layer)
    return found


def make(ctx):
    from families import SNAPSHOTS
    schemas = {path.stem: path for path in (ctx.reference / "tests/snapshots").glob("*.schema")}
    assert set(schemas) == set(SNAPSHOTS), set(schemas) ^ set(SNAPSHOTS)
    folder = ctx.golden / "recipes/snapshots"
    for model, (architecture, heading, tensors) in SNAPSHOTS.items():
        text = schemas[model].read_text()
        stated = {key: int(value) for key, value in re.findall(r"(n_\w+)=(\d+)", text.split("[")[0])}
        assert stated == heading, (model, stated, heading)
        known = {(layer, name) for layers, name, _ in tensors for layer in (layers or [None])}
        lines = [f"architecture {architecture}"]
        lines += [f"{key} {heading.get(key, 0)}" for key in ("n_layer", "n_expert", "n_head", "n_head_kv")]
        lines += [f"tensor {fold(layers)} {name} {'x'.join(map(str, dims))}" for layers, name, dims in tensors]
        for recipe, default, others in sections(text):
            lines.append(f"[{recipe}] {default}")
            for (name, dtype), layers in others.items():
                assert all((layer, name) in known for layer in (layers or [None])), (model, recipe, name)
                lines.append(f"{fold(layers)} {name} {dtype}")
        (folder / f"{model}.txt").write_text("\n".join(lines) + "\n")
