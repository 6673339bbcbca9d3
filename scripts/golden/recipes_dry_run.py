"""Makes golden/recipes/dry-run/: what llama-quantize would do with small models of many kinds.

The snapshots of real models (recipes.py) say nothing of importance matrices, options, eight experts,
falcon, and most tensors that are never touched. Here every recipe runs on models made for that. The
model files hold a header and a hole in place of the data, which a dry run does not read. A file reads
as those of recipes.py, with these additions:

  key NAME VALUE               metadata in place of the facts; a list of numbers is an array
  tensor LAYERS NAME DIMS DTYPE
  [RECIPE] default OPTION...   `imatrix`, options without their dashes, `needs-imatrix` where the tool
                               warns that it will not work without one, `refused` where it fails
  LAYERS NAME dtype            for tensors that are never touched, too

Keys that an architecture wants and recipes do not are found by trying. Needs nothing but Python.
"""

import re
import struct
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recipes import ffn, fold, split

TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "bf16": (30, 1, 2), "q8_0": (8, 32, 34), "q4_K": (12, 256, 144),
    "i32": (26, 1, 4)}
RECIPES = {
    "Q1_0": "q1_0", "Q2_0": "q2_0", "Q4_0": "q4_0", "Q4_1": "q4_1", "MXFP4_MOE": "mxfp4", "Q5_0": "q5_0",
        "Q5_1": "q5_1",
    "IQ2_XXS": "iq2_xxs", "IQ2_XS": "iq2_xs", "IQ2_S": "iq2_xs", "IQ2_M": "iq2_s", "IQ1_S": "iq1_s", "IQ1_M": "iq1_m",
    "TQ1_0": "tq1_0", "TQ2_0": "tq2_0", "Q2_K": "q2_K", "Q2_K_S": "q2_K", "IQ3_XXS": "iq3_xxs", "IQ3_S": "iq3_s",
    "IQ3_M": "iq3_s", "IQ3_XS": "iq3_s", "Q3_K_S": "q3_K", "Q3_K_M": "q3_K", "Q3_K_L": "q3_K", "IQ4_NL": "iq4_nl",
    "IQ4_XS": "iq4_xs", "Q4_K_S": "q4_K", "Q4_K_M": "q4_K", "Q5_K_S": "q5_K", "Q5_K_M": "q5_K", "Q6_K": "q6_K",
    "Q8_0": "q8_0", "F16": "f16", "BF16": "bf16", "F32": "f32", "COPY": "f32",
}
SOME = ["Q2_K", "Q3_K_M", "Q4_K_M", "Q4_0", "IQ3_XXS", "IQ2_M", "MXFP4_MOE", "F16", "BF16", "COPY", "Q1_0", "IQ4_XS"]


def keys(arch, n_layer, n_head=4, n_head_kv=1, **rest):
    found = {"general.architecture": arch, f"{arch}.context_length": 64, f"{arch}.embedding_length": 256,
             f"{arch}.block_count": n_layer, f"{arch}.feed_forward_length": 512,
             f"{arch}.attention.head_count": n_head, f"{arch}.attention.head_count_kv": n_head_kv}
    return found | {f"{arch}.{key.replace('__', '.')}": value for key, value in rest.items()}


def attention(layers, d=256, q=256, kv=64):
    return [(layers, "attn_q.weight", (d, q)), (layers, "attn_k.weight", (d, kv)), (layers, "attn_v.weight", (d, kv)),
            (layers, "attn_output.weight", (q, d)), (layers, "attn_norm.weight", (d,)), (layers, "attn_q.bias", (q,))]


def ends(d=256, tied=False):
    return [(None, name, (d, 64)) for name in ["token_embd.weight"] + ([] if tied else ["output.weight"])]


def values(n):
    return ends() + [(list(range(n)), "attn_v.weight", (256, 32))]


def model(keys, tensors, dtype="f16", recipes=None, options=((), ("imatrix",))):
    tensors = [(layers, name, dims, "f32" if len(dims) == 1 else dtype) for layers, name, dims in tensors]
    return dict(keys=keys, tensors=tensors, recipes=recipes or list(RECIPES), options=options)


KEPT = """ffn_gate_inp.weight ffn_gate_tid2eid.weight altup_proj.weight laurel_l.weight ssm_conv1d.weight ssm_norm.weight
shortconv.conv.weight indexer.k_proj.weight indexer.q_proj.weight time_mix_first.weight time_mix_w0.weight time_mix_w1.weight
time_mix_w2.weight time_mix_v0.weight time_mix_v1.weight time_mix_v2.weight time_mix_a0.weight time_mix_a1.weight
time_mix_a2.weight time_mix_g1.weight time_mix_g2.weight time_mix_decay_w1.weight time_mix_decay_w2.weight
time_mix_lerp_fused.weight time_mix_key.weight attn_rel_b.weight hc_attn.weight indexer.attn_q_b.weight indexer.attn_k.weight
indexer.proj.weight indexer_compressor_gate.weight indexer_compressor_ape.weight ssm_f_a.weight ssm_f_b.weight ssm_g_a.weight
ssm_g_b.weight ssm_beta.weight attn_kv_a_mqa.weight attn_k_b.weight attn_v_b.weight attn_q_a.weight attn_q_b.weight
nextn.eh_proj.weight attn_kv_b.weight attn_qkv.weight inp_gate.weight ssm_a exp_probs_b.bias ffn_gate_inp_shexp.weight""".split()
KEPT_ALONE = """position_embd.weight token_types.weight per_layer_model_proj.weight v.position_embd.weight v.patch_embd.weight
v.sam.pos_embd.weight v.sam.neck.0.weight v.sam.net_2.weight v.blk.0.attn.rel_pos_w.weight mm.patch_merger.weight
a.rvq.codebook.0.weight mm.a.code_embd.weight enc.blk.0.attn_v.weight x.y.z cls.weight per_layer_token_embd.weight
token_embd_norm.weight rope_factors_long.weight v.blk.0.attn_q.weight""".split()


def every_name():
    return [([0, 1], name, (256, 4)) for name in KEPT] + [(None, name, (256, 4)) for name in KEPT_ALONE]


GLM5 = {"attention__indexer__kpool": 2, "attention__indexer__top_k": 4, "hyper_connection__count": 4}
L20 = list(range(20))
EXPERTS8 = [(L20, "ffn_gate_inp.weight", (256, 8))] + ffn(256, 512, L20, "_exps", (8,))
SPLIT8 = [row for e in range(8) for kind in ("gate", "up", "down")
          for row in [(L20, f"ffn_{kind}.{e}.weight", (512, 256) if kind == "down" else (256, 512))]]
OPTIONS = ((), ("imatrix",), ("pure",), ("leave-output-tensor",), ("output-tensor-type=q8_0",),
    ("output-tensor-type=q5_K", "pure"),
           ("token-embedding-type=q4_0",), ("token-embedding-type=q4_0", "output-tensor-type=f16"),
           ("tensor-type=blk\\.(1|7)\\.attn_v=q8_0",), ("tensor-type=ATTN_=q6_k", "tensor-type=ffn_down=iq4_nl"),
           ("token-embedding-type=q4_0", "tensor-type=per_layer_token=q5_1"),
               ("pure", "tensor-type=ffn_(up|gate)=q3_k", "imatrix"))

MODELS = {
    "llama-grouped": model(keys("llama", 20), ends() + attention(L20) + ffn(256, 512, L20)
        + [(None, "rope_freqs.weight", (32,))]),
    "llama-plain-tied": model(keys("llama", 33, 4, 4), ends(tied=True) + attention(list(range(33)), kv=256)
        + ffn(256, 512, list(range(33))), "bf16"),
    "llama-quantized": model(keys("llama", 9, [4] * 9, [2] * 9),
        ends() + attention(list(range(9))) + ffn(256, 512, list(range(9))), "q8_0"),
    "llama-odd-rows": model(keys("llama", 9), [(None, "token_embd.weight", (96, 64)),
        (None, "output.weight", (40, 64))]
                            + attention(list(range(9)), d=96, q=64, kv=32) + ffn(128, 160, list(range(9)))
                            + [([0], "ffn_up_exps.weight", (40, 8, 3)), ([1], "attn_x.weight", (192, 4)),
                                ([2], "attn_v.weight", (7, 4))][:2], "f32"),
    "llama-options": model(keys("llama", 9), ends() + attention(list(range(9))) + ffn(256, 512, list(range(9)))
                           + [(None, "per_layer_token_embd.weight", (256, 64))], "f32", SOME, OPTIONS),
    "llama-options-tied": model(keys("llama", 4), ends(tied=True) + attention(list(range(4)))
        + ffn(256, 512, list(range(4))), "f32", SOME, OPTIONS[1:8]),
    "llama-70b": model(keys("llama", 80, 8, 1), values(80)),
    "llama-65b": model(keys("llama", 80, 8, 8), values(80), options=((),)),
    "llama-nextn": model(keys("llama", 81, 8, 1, nextn_predict_layers=1), values(81), options=((),)),
    "qwen2-80": model(keys("qwen2", 80, 8, 8), values(80), options=((),)),
    "deci-80": model(keys("deci", 80, 8, 8), values(80), options=((),)),
    "olmo-80": model(keys("olmo", 80, 8, 8), values(80), options=((),)),
    "jais2-68": model(keys("jais2", 68, 8, 8), values(68), options=((),)),
    "nanbeige": model(keys("nanbeige", 12, num_loops=3), ends() + ffn(256, 512, list(range(12))), options=((),)),
    "mixtral": model(keys("llama", 20, expert_count=8, expert_used_count=2), ends() + attention(L20) + EXPERTS8),
    "mixtral-plain-heads": model(keys("llama", 20, 4, 4, expert_count=8, expert_used_count=2),
        ends() + attention(L20) + EXPERTS8),
    "mixtral-split": model(keys("llama", 20, expert_count=8, expert_used_count=2), ends() + attention(L20) + SPLIT8,
        options=((),)),
    "four-experts": model(keys("llama", 20, 4, 4, expert_count=4, expert_used_count=2),
        ends() + attention(L20) + ffn(256, 512, L20, "_exps", (4,))),
    "three-experts": model(keys("llama", 20, 4, 4, expert_count=3, expert_used_count=2),
        ends() + attention(L20) + ffn(256, 512, L20, "_exps", (3,)),
                           options=((),)),
    "falcon": model(keys("falcon", 33), ends() + [(list(range(33)), "attn_qkv.weight", (256, 384)),
        (list(range(33)), "attn_output.weight", (256, 256)),
                    (list(range(33)), "ffn_up.weight", (256, 512)), (list(range(33)), "ffn_down.weight", (512, 256))]),
    "latent": model(keys("deepseek2", 16, expert_count=6, expert_used_count=2),
        ends() + [(list(range(16)), "attn_kv_b.weight", (256, 64)),
                    (list(range(16)), "attn_k_b.weight", (64, 256, 4))]
                        + ffn(256, 512, list(range(16)), "_exps", (6,)) + ffn(256, 512, list(range(16)), "_shexp")),
    "bailingmoe3": model(keys("bailingmoe3", 9, expert_count=6, expert_used_count=2, kda__gate_lower_bound=-1.0),
        ends() + [(list(range(9)), "attn_k_b.weight", (256, 32, 4)),
                         (list(range(9)), "ffn_x.weight", (256, 32, 6))]
                             + ffn(256, 512, list(range(9)), "_exps", (6,)), options=((),)),
    "names-llama": model(keys("llama", 2), every_name(), options=((),)),
    "names-bert": model(keys("bert", 2), every_name(), options=((),)),
    "names-glm5-next": model(keys("glm5-next", 2, expert_count=3, expert_used_count=2, **GLM5), every_name(),
        options=((), ("tensor-type=attn_q_a=q4_0",))),
    "layer-missing": model(keys("llama", 2, expert_count=3, expert_used_count=2),
        [(None, "x.ffn_down.weight", (256, 4))], options=((),)),
    "layer-out-of-range": model(keys("llama", 2, expert_count=3, expert_used_count=2),
        [([2], "ffn_gate.weight", (256, 4))], options=((),)),
}


def text(value):
    value = value.encode()
    return struct.pack("<Q", len(value)) + value


def value(value):
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 4, len(value)) + struct.pack(f"<{len(value)}I", *value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<II", 4, value)


def write(path, keys, tensors):
    offset, infos = 0, []
    flat = [(name if layer is None else f"blk.{layer}.{name}", dims, dtype)
            for layers, name, dims, dtype in tensors for layer in (layers or [None])]
    for name, dims, dtype in flat:
        id, elems, size = TYPES[dtype]
        infos.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, id, offset))
        n = 1
        for dim in dims:
            n *= dim
        offset += (n // elems * size + 31) // 32 * 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(flat), len(keys))
    head += b"".join(text(key) + value(v) for key, v in keys.items()) + b"".join(infos)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate((len(head) + 31) // 32 * 32 + offset)
    return [name for name, _, _ in flat]


def run(tool, path, recipe, options, imatrix):
    words = []
    for option in options:
        if option == "imatrix":
            words += ["--imatrix", imatrix]
        else:
            name, _, rest = option.partition("=")
            words += ["--" + name] + ([rest] if rest else [])
    done = subprocess.run([tool, *map(str, words), "--dry-run", path, recipe], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def complete(tool, path, keys, tensors):
    """The keys with those added that the architecture insists on."""
    for _ in range(80):
        write(path, keys, tensors)
        code, output = run(tool, path, "Q8_0", (), None)
        missing = re.search(r"key not found in model: (\S+)", output)
        wrong = re.search(r"key (\S+) has wrong type (\S+) but expected type (\S+)", output)
        if missing:
            keys = keys | {missing[1]: 1}
        elif wrong:
            keys = keys | {wrong[1]: {"f32": 1.0, "bool": True, "str": "x"}[wrong[3]]}
        else:
            return keys
    raise SystemExit(f"{path}: {output[-500:]}")


def section(tool, path, stored, recipe, options, imatrix):
    code, output = run(tool, path, recipe, options, imatrix)
    if code != 0:
        assert "failed to quantize" in output, output[-800:]
        return [" ".join([f"[{recipe}] {RECIPES[recipe]}", *options, "refused"])]
    found = {}
    for line in re.findall(r"^\[ *\d+/ *\d+\] (.*)$", output, re.M):
        name, before, after = re.fullmatch(r"(\S+) +- \[.*?\], type = +(\S+), size = .*?(?:\((\S+)\))?", line).groups()
        found[name] = after or before
    assert set(found) == set(stored), set(found) ^ set(stored)
    needs = ["needs-imatrix"] if "will require an imatrix" in output else []
    lines = [" ".join([f"[{recipe}] {RECIPES[recipe]}", *options, *needs])]
    folded = {}
    for name, dtype in found.items():
        if dtype != RECIPES[recipe]:
            layer, rest = split(name)
            folded.setdefault((rest, dtype), []).append(layer)
    return lines + [f"{fold(None if layers == [None] else layers)} {name} {dtype}" for (name, dtype),
        layers in folded.items()]


def make(ctx):
    folder = ctx.golden / "recipes/dry-run"
    with tempfile.TemporaryDirectory() as scratch:
        imatrix = Path(scratch) / "imatrix.dat"
        name = b"blk.0.attn_q.weight"
        imatrix.write_bytes(struct.pack("<ii", 1, len(name)) + name + struct.pack("<ii2f", 1, 2, 1.0, 1.0))
        for title, model in MODELS.items():
            path = Path(scratch) / f"{title}.gguf"
            keys = complete(ctx.program("llama-quantize"), path, model["keys"], model["tensors"])
            stored = write(path, keys, model["tensors"])
            lines = [f"key {key} {','.join(map(str, v)) if isinstance(v, list) else v}" for key,
                v in model["keys"].items()]
            lines += [f"tensor {fold(layers)} {name} {'x'.join(map(str, dims))} {dtype}" for layers, name, dims,
                dtype in model["tensors"]]
            jobs = [(recipe, options) for recipe in model["recipes"] for options in model["options"]]
            with ThreadPoolExecutor(2) as pool:
                for part in pool.map(lambda job: section(ctx.program("llama-quantize"), path, stored, *job, imatrix),
                    jobs):
                    lines += part
            (folder / f"{title}.txt").write_text("\n".join(lines) + "\n")
            print(title, len(jobs), flush=True)
            path.unlink()
