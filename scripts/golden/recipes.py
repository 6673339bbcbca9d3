"""Makes golden/recipes/snapshots/: which dtype each tensor of twelve real models gets.

The expectations are the reference's own, tests/snapshots/*.schema, folded: a run of layers with the
same tensor and dtype is one line. What the reference fetches from the Hub to check them, names and
shapes of the tensors, is stated in MODELS below, from the models' published configs and the layouts
in the reference's src/models/. Every figure in a snapshot's own heading is checked against it, and
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


def dense(n_embd, n_ff, q, kv, layers):
    return [
        (layers, "attn_q.weight", (n_embd, q)), (layers, "attn_k.weight", (n_embd, kv)),
        (layers, "attn_v.weight", (n_embd, kv)), (layers, "attn_output.weight", (q, n_embd)),
    ] + ffn(n_embd, n_ff, layers)


def ffn(n_embd, n_ff, layers, kind="", experts=()):
    down, up = (n_ff, n_embd) + experts, (n_embd, n_ff) + experts
    return [(layers, f"ffn_gate{kind}.weight", up), (layers, f"ffn_up{kind}.weight", up),
            (layers, f"ffn_down{kind}.weight", down)]


def ends(n_embd, n_vocab, tied=False):
    names = ["token_embd.weight"] + ([] if tied else ["output.weight"])
    return [(None, name, (n_embd, n_vocab)) for name in names] + [(None, "output_norm.weight", (n_embd,))]


def qwen35(n_embd, n_layer, q, kv, out, qkv, n_v_heads, fused):
    """Every fourth layer is attention, with a gate in its queries; the others are a gated delta net."""
    full, linear = every(n_layer, 4, True), every(n_layer, 4, False)
    rates = [("ssm_ba.weight", 2 * n_v_heads)] if fused else [("ssm_alpha.weight", n_v_heads),
        ("ssm_beta.weight", n_v_heads)]
    return [
        (full, "attn_q.weight", (n_embd, 2 * q)), (full, "attn_k.weight", (n_embd, kv)),
        (full, "attn_v.weight", (n_embd, kv)), (full, "attn_output.weight", (q, n_embd)),
        (linear, "attn_qkv.weight", (n_embd, qkv)), (linear, "attn_gate.weight", (n_embd, out)),
        (linear, "ssm_conv1d.weight", (4, qkv)), (linear, "ssm_out.weight", (out, n_embd)),
    ] + [(linear, name, (n_embd, width)) for name, width in rates]


def nemotron():
    mamba = [0, 2, 4, 7, 9, 11, 14, 16, 18, 21, 23, 25, 28, 30, 32, 35, 37, 39, 41, 44, 46, 48, 50]
    attention = [5, 12, 19, 26, 33, 42]
    experts = [i for i in range(52) if i not in mamba + attention]
    d = 2688
    return ends(d, 131072) + [
        (mamba, "ssm_in.weight", (d, 10304)), (mamba, "ssm_conv1d.weight", (4, 6144)),
            (mamba, "ssm_norm.weight", (512, 8)),
        (mamba, "ssm_a", (1, 64)), (mamba, "ssm_d", (1, 64)), (mamba, "ssm_out.weight", (4096, d)),
        (attention, "attn_q.weight", (d, 4096)), (attention, "attn_k.weight", (d, 256)),
        (attention, "attn_v.weight", (d, 256)), (attention, "attn_output.weight", (4096, d)),
        (experts, "ffn_gate_inp.weight", (d, 128)), (experts, "exp_probs_b.bias", (128,)),
        (experts, "ffn_up_exps.weight", (d, 1856, 128)), (experts, "ffn_down_exps.weight", (1856, d, 128)),
        (experts, "ffn_up_shexp.weight", (d, 3712)), (experts, "ffn_down_shexp.weight", (3712, d)),
    ]


def deepseek():
    every61, first, moe, d = list(range(61)), [0, 1, 2], list(range(3, 61)), 7168
    return ends(d, 129280) + [
        (every61, "attn_q_a.weight", (d, 1536)), (every61, "attn_q_b.weight", (1536, 24576)),
        (every61, "attn_kv_a_mqa.weight", (d, 576)), (every61, "attn_k_b.weight", (128, 512, 128)),
        (every61, "attn_v_b.weight", (512, 128, 128)), (every61, "attn_output.weight", (16384, d)),
        (every61, "attn_q_a_norm.weight", (1536,)), (moe, "ffn_gate_inp.weight", (d, 256)),
            (moe, "exp_probs_b.bias", (256,)),
    ] + ffn(d, 18432, first) + ffn(d, 2048, moe, "_exps", (256,)) + ffn(d, 2048, moe, "_shexp")


def glm():
    layers, moe, d = list(range(46)), list(range(1, 46)), 4096
    attention = [row for row in dense(d, 1, 12288, 1024, layers) if row[1].startswith("attn")]
    return ends(d, 151552) + attention + ffn(d, 10944, [0]) + ffn(d, 1408, moe, "_exps", (128,)) \
        + ffn(d, 1408, moe, "_shexp") + [(moe, "ffn_gate_inp.weight", (d, 128)), (moe, "exp_probs_b.bias", (128,))]


def step():
    # Three layers of sliding windows to one of full attention, which has fewer heads.
    layers, moe, d = list(range(45)), list(range(3, 45)), 4096
    full = [i for i in layers if i % 4 == 0]
    window = [i for i in layers if i % 4 != 0]
    rows = ends(d, 128896)
    for where, heads in ((full, 64), (window, 96)):
        rows += [(where, "attn_q.weight", (d, heads * 128)), (where, "attn_output.weight", (heads * 128, d)),
                 (where, "attn_gate.weight", (d, heads))]
    return rows + [(layers, "attn_k.weight", (d, 1024)), (layers, "attn_v.weight", (d, 1024)),
                   (moe, "ffn_gate_inp.weight", (d, 288)), (moe, "exp_probs_b.bias", (288,))] \
        + ffn(d, 11264, [0, 1, 2]) + ffn(d, 1280, moe, "_exps", (288,)) + ffn(d, 1280, moe, "_shexp")


def gpt_oss():
    layers, d = list(range(36)), 2880
    attention = [row for row in dense(d, 1, 4096, 512, layers) if row[1].startswith("attn")]
    biases = [(layers, f"ffn_{part}_exps.bias", (d, 128)) for part in ("gate", "up", "down")]
    return ends(d, 201088) + attention + ffn(d, 2880, layers, "_exps", (128,)) + biases \
        + [(layers, "ffn_gate_inp.weight", (d, 128)), (layers, "attn_sinks.weight", (64,))]


def qwen3next():
    layers, d = list(range(48)), 2048
    return ends(d, 151936) + qwen35(d, 48, 4096, 512, 4096, 8192, 32, True) + ffn(d, 512, layers, "_exps", (512,)) \
        + ffn(d, 512, layers, "_shexp") + [(layers, "ffn_gate_inp.weight", (d, 512)),
            (layers, "ffn_gate_inp_shexp.weight", (d,))]


def qwen35moe():
    layers, d = list(range(60)), 4096
    return ends(d, 248320) + qwen35(d, 60, 8192, 512, 8192, 12288, 64, False) + ffn(d, 1024, layers, "_exps", (512,)) \
        + ffn(d, 1024, layers, "_shexp") + [(layers, "ffn_gate_inp.weight", (d, 512)),
            (layers, "ffn_gate_inp_shexp.weight", (d,))]


# Name -> (architecture, heading of the snapshot, tensors). Heads as the reference's test reads them: of the first
# layer.
MODELS = {
    "qwen3-0.6b": ("qwen3", dict(n_embd=1024, n_ff=3072, n_vocab=151936, n_layer=28, n_head=16, n_head_kv=8),
                   ends(1024, 151936) + dense(1024, 3072, 2048, 1024, list(range(28)))),
    "qwen3-14b": ("qwen3", dict(n_embd=5120, n_ff=17408, n_vocab=151936, n_layer=40, n_head=40, n_head_kv=8),
                  ends(5120, 151936) + dense(5120, 17408, 5120, 1024, list(range(40)))),
    "gemma-3-4b-it": ("gemma3", dict(n_embd=2560, n_ff=10240, n_vocab=262144, n_layer=34, n_head=8, n_head_kv=4),
                      ends(2560, 262144, tied=True) + dense(2560, 10240, 2048, 1024, list(range(34)))),
    "meta-llama-3.1-70b-instruct": (
        "llama", dict(n_embd=8192, n_ff=28672, n_vocab=128256, n_layer=80, n_head=64, n_head_kv=8),
        ends(8192, 128256) + dense(8192, 28672, 8192, 1024, list(range(80))) + [(None, "rope_freqs.weight", (64,))]),
    "gpt-oss-120b": ("gpt-oss", dict(n_embd=2880, n_ff=2880, n_vocab=0, n_layer=36, n_head=64, n_head_kv=8,
        n_expert=128), gpt_oss()),
    "glm-4.6v": ("glm4moe", dict(n_embd=4096, n_ff=10944, n_vocab=151552, n_layer=46, n_head=96, n_head_kv=8,
        n_expert=128), glm()),
    "step-3.5-flash": ("step35", dict(n_embd=4096, n_ff=11264, n_vocab=128896, n_layer=45, n_head=64, n_head_kv=8,
        n_expert=288), step()),
    "deepseek-v3.1": ("deepseek2", dict(n_embd=7168, n_ff=18432, n_vocab=129280, n_layer=61, n_head=128, n_head_kv=1,
        n_expert=256),
                      deepseek()),
    "qwen3-coder-next": ("qwen3next", dict(n_embd=2048, n_ff=5120, n_vocab=151936, n_layer=48, n_head=16, n_head_kv=2,
        n_expert=512),
                         qwen3next()),
    "qwen3.5-397b-a17b": ("qwen35moe", dict(n_embd=4096, n_ff=0, n_vocab=248320, n_layer=60, n_head=32, n_head_kv=2,
        n_expert=512),
                          qwen35moe()),
    "qwen3.6-27b": ("qwen35", dict(n_embd=5120, n_ff=17408, n_vocab=248320, n_layer=64, n_head=24, n_head_kv=4),
                    ends(5120, 248320) + qwen35(5120, 64, 6144, 1024, 6144, 10240, 48, False)
                        + ffn(5120, 17408, list(range(64)))),
    "nvidia-nemotron-3-nano-30b-a3b": (
        "nemotron_h_moe", dict(n_embd=2688, n_ff=0, n_vocab=131072, n_layer=52, n_head=32, n_head_kv=0, n_expert=128),
            nemotron()),
}


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
    schemas = {path.stem: path for path in (ctx.reference / "tests/snapshots").glob("*.schema")}
    assert set(schemas) == set(MODELS), set(schemas) ^ set(MODELS)
    folder = ctx.golden / "recipes/snapshots"
    for model, (architecture, heading, tensors) in MODELS.items():
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
