"""Makes golden/torch/: files of torch.save in every form, and what the reference makes of folders that hold them.

forms/NAME.bin       small state dicts with everything that can be odd about a tensor
forms/NAME.txt       of each tensor: name, type as safetensors spells it, shape, sha256 of its values as f32
refused/NAME.bin     files that are no state dict
bin, bin-sharded     folders of a tiny llama; `expected.json` says what the converter makes of them: bytes and sha256 of
                     whole files by type
meta-N               N shards in Meta's layout; expected is what the converter makes of Hugging Face's copy of the same
                     weights, whose rows of Q and K are moved as `convert_llama_weights_to_hf.py` moves them
mistral-NAME         Mistral's layout, converted with --mistral-format
mixtral-stacked      the first Mixtral's: shards with tensors of their own, experts stacked; expected as of meta-N
mistral-mixtral      a later one's in safetensors: the converter's file of Hugging Face's copy, with the tokenizer that it
                     takes with --mistral-format, as which it does not read mixtures
adapter_model.bin    golden/lora/llama as a pickle

Needs torch, transformers, safetensors, sentencepiece and mistral-common.
"""

import collections
import io
import json
import pickle
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import torch

from lib import TEXT, sha256, write_json

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint64: "U64", torch.uint32: "U32",
    torch.uint16: "U16", torch.uint8: "U8", torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2", torch.float8_e8m0fnu: "F8_E8M0",
}
LEGACY = dict(_use_new_zipfile_serialization=False)
OUTTYPES = ("f32", "bf16")


def listing(tensors) -> str:
    lines = []
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor):
            values = tensor.detach().contiguous().to(torch.float32).numpy().tobytes()
            shape = json.dumps(list(tensor.shape), separators=(",", ":"))
            lines.append(f"{name} {NAMES[tensor.dtype]} {shape} {sha256(values)}\n")
    return "".join(lines)


def types():
    """One tensor of every type, not in the order of names; a scalar; nothing; one element."""
    tensors = {"z": torch.randn(3, 5), "scalar": torch.tensor(-1.5), "empty": torch.empty(0, 3), "one": torch.ones(1, 1)}
    for dtype in NAMES:
        if dtype == torch.bool:
            tensors["t.BOOL"] = torch.tensor([[True, False, True]])
        elif dtype.is_floating_point:
            tensors["t." + NAMES[dtype]] = torch.rand(2, 3).to(dtype)
        else:
            tensors["t." + NAMES[dtype]] = torch.randint(0, 100, (2, 3)).to(dtype)
    return tensors


def views():
    """Tensors that do not lie in their storage as their shape says, and several in one."""
    base = torch.arange(120, dtype=torch.float32).reshape(10, 12) * 0.37 - 11
    half, cube = torch.randn(6, 70).half(), torch.randn(3, 4, 5).bfloat16()
    long = torch.randn(2600, 2).half()
    return {
        "whole": base, "again": base, "transposed": base.T, "rows": base[3:7], "columns": base[:, 2:9],
        "every-third": base[:, ::3], "every-second-row": base[1::2], "corner": base[1:5:2, 1:11:4].T,
        "flat": base.flatten()[17:43], "element": base[4, 5], "repeated": base[2].expand(4, 12),
        "repeated-element": base[:1, :1].expand(3, 4), "row-of-column": base[:, 3], "diagonal": base.diagonal(),
        "half-transposed": half.T, "half-columns": half[:, 5:69], "permuted": cube.permute(2, 0, 1),
        "permuted-last": cube.transpose(0, 1), "windows": torch.arange(9.0).unfold(0, 4, 1),
        "column": torch.randn(5, 1).T.contiguous().T, "long-transposed": long.T, "long-every-second": long.T[:, ::2],
        "int-transposed": torch.arange(6, dtype=torch.int32).reshape(2, 3).T, "none-of": base[:, 4:4],
        "fp8-transposed": torch.randn(4, 6).to(torch.float8_e4m3fn).T, "u16-from-second": torch.arange(8).to(torch.uint16)[2:6],
    }


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.norm = torch.nn.LayerNorm(3)
        self.register_buffer("ids", torch.arange(4))


def parameters():
    """What is wrapped around tensors: parameters, attributes, gradients."""
    tagged = torch.randn(2, 2)
    tagged.tag = "a tensor with an attribute"
    parameter = torch.nn.Parameter(torch.randn(2, 3))
    parameter.tag = 1
    return {"parameter": torch.nn.Parameter(torch.randn(3)), "frozen": torch.nn.Parameter(torch.randn(2), requires_grad=False),
            "tagged": tagged, "tagged-parameter": parameter, "gradient": torch.randn(4, requires_grad=True)}


def rezip(data: bytes, change) -> bytes:
    """The archive with every entry (name, bytes, method) put through `change`."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            kept = change(entry.filename, old.read(entry))
            if kept is not None:
                name, content, method = kept
                new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, compress_type=method)
    return out.getvalue()


def saved(value, **how) -> bytes:
    data = io.BytesIO()
    torch.save(value, data, **how)
    return data.getvalue()


def make_forms(folder: Path) -> None:
    torch.manual_seed(11)
    plain = {"b.weight": torch.randn(2, 4).bfloat16(), "a.weight": torch.randn(3).bfloat16()}
    state = Holder().state_dict()
    two = torch.randn(2, 3)
    optimizer = {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 0.1}]}
    wrapped = {key: {key: plain, "epoch": 3, "optimizer": optimizer} for key in ("model", "state_dict", "module",
        "model_state_dict")}
    # Name -> what is saved, the tensors that are meant, options.
    forms = {"types": (types(), None, {}), "views": (views(), None, {}), "parameters": (parameters(), None, {}),
             "module": (state, None, {}), "scalars-beside": ({"w": two, "step": 7, "name": "tiny", "lr": 0.5, "none": None,
                "flag": True, "list": [1, "a"]}, None, {})}
    forms |= {f"under-{key}": (value, plain, {}) for key, value in wrapped.items()}
    forms["tensor-and-model"] = ({"model": {"x": 1}, "w": two}, {"w": two}, {})
    # Torch writes types without a storage class in the legacy form too, and does not read them back.
    classes = lambda value: {name: tensor for name, tensor in value.items()
        if not NAMES[tensor.dtype].startswith(("F8", "U16", "U32", "U64"))}
    forms |= {"types-legacy": (classes(types()), None, LEGACY), "views-legacy": (classes(views()), None, LEGACY),
              "parameters-legacy": (parameters(), None, LEGACY), "module-legacy": (state, None, LEGACY)}
    for name, (value, meant, how) in forms.items():
        data = saved(value, **how)
        # Whoever cannot load it has made no golden.
        torch.load(io.BytesIO(data), weights_only=True)
        (folder / f"{name}.bin").write_bytes(data)
        (folder / f"{name}.txt").write_text(listing(meant or value))
    # As torch 1.6 wrote it: three kinds of entries; under the name of the file, with large keys.
    keys = {"0": "100189760", "1": "4294967296"}
    old = saved(plain)

    def renamed(name, content):
        root, rest = name.split("/", 1)
        if rest in ("data.pkl", "version"):
            for key, other in keys.items():
                content = content.replace(b"X\x01\0\0\0" + key.encode(), b"X" + bytes([len(other), 0, 0, 0]) + other.encode())
            return f"pytorch_model/{rest}", content, zipfile.ZIP_STORED
        if rest.startswith("data/"):
            return f"pytorch_model/data/{keys[rest[5:]]}", content, zipfile.ZIP_STORED
        return None

    data = rezip(old, renamed)
    loaded = torch.load(io.BytesIO(data), weights_only=True)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in plain.items())
    (folder / "old-archive.bin").write_bytes(data)
    (folder / "old-archive.txt").write_text(listing(plain))


def make_refused(folder: Path) -> None:
    torch.manual_seed(12)
    plain = {"w": torch.randn(4, 4)}
    complex_ = torch.randn(3, dtype=torch.complex64)
    files = {
        "counter": saved({"w": torch.randn(2), "args": collections.Counter("abc")}),
        "counter-legacy": saved({"w": torch.randn(2), "args": collections.Counter("abc")}, **LEGACY),
        "whole-module": saved(torch.nn.Linear(2, 2)),
        "negated": saved({"w": complex_.conj().imag}),
        "sparse": saved({"w": torch.eye(3).to_sparse()}),
        "nested-tensors": saved({"w": torch.randn(2), "more": {"x": torch.randn(2)}}),
        "no-tensors": saved({"epoch": 3}),
        "list": saved([torch.randn(2)]),
        "protocol-4": saved(plain, pickle_protocol=4),
        "deflated": rezip(saved(plain), lambda name, content: (name, content, zipfile.ZIP_DEFLATED)),
        "deflated-data": rezip(saved({"w": torch.zeros(64, 64)}), lambda name, content: (name, content,
            zipfile.ZIP_DEFLATED if "/data/" in name else zipfile.ZIP_STORED)),
        "big-endian": rezip(saved(plain), lambda name, content: (name, b"big" if name.endswith("byteorder") else content,
            zipfile.ZIP_STORED)),
        "storage-missing": rezip(saved(plain), lambda name, content: None if "/data/" in name else (name, content,
            zipfile.ZIP_STORED)),
        "storage-short": rezip(saved(plain), lambda name, content: (name, content[:60] if "/data/" in name else content,
            zipfile.ZIP_STORED)),
        "other-zip": rezip(saved(plain), lambda name, content: None if name.endswith("data.pkl") else (name, content,
            zipfile.ZIP_STORED)),
        "plain-pickle": pickle.dumps({"w": 1}, protocol=2),
    }
    script = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), script)
    files["torchscript"] = script.getvalue()
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("sys_info"), io.BytesIO())
    files["tar"] = tar.getvalue()[:512]
    for name, data in files.items():
        (folder / f"{name}.bin").write_bytes(data)


def make_tokenizer(folder: Path) -> None:
    """A SentencePiece model of 96 pieces."""
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=model, vocab_size=96, model_type="bpe", character_coverage=1.0,
        normalization_rule_name="identity", unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=1, minloglevel=2)
    (folder / "tokenizer.model").write_bytes(model.getvalue())


def tiny_llama(**config):
    """Config and state dict of a llama of 32 dimensions, as transformers makes it."""
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(**dict(vocab_size=96, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048, rms_norm_eps=1e-6, bos_token_id=1,
        eos_token_id=2, architectures=["LlamaForCausalLM"]) | config)
    model = LlamaForCausalLM(config)
    state = {name: (tensor * 3 + torch.randn_like(tensor) * 0.01).to(torch.bfloat16)
             for name, tensor in model.state_dict().items()}
    return config, state


def write_config(config, folder: Path) -> None:
    folder.mkdir(parents=True)
    config.save_pretrained(folder)


def converted(ctx, folder: Path, *options) -> dict:
    """What the reference makes of a folder: bytes and sha256 of the whole file, by type."""
    expected = {}
    for outtype in OUTTYPES:
        out = ctx.scratch / f"{folder.name}-{outtype}.gguf"
        subprocess.run([sys.executable, ctx.reference / "convert_hf_to_gguf.py", folder, "--outtype", outtype,
            "--outfile", out, *options], check=True, capture_output=True)
        expected[outtype] = [out.stat().st_size, sha256(out.read_bytes())]
    return expected


def make_folders(ctx, out: Path) -> None:
    torch.manual_seed(13)
    config, state = tiny_llama()
    # Neither the order of names nor that of the model; buffers as older releases had them.
    order = sorted(state, key=lambda name: sha256(name.encode()))
    state = {name: state[name] for name in order}
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.rand(4)
    for name, shards in (("bin", [list(state)]), ("bin-sharded", [order[1::2], order[::2]])):
        folder = out / name
        write_config(config, folder)
        shutil.copy(out / "tokenizer.model", folder)
        weight_map = {}
        for number, names in enumerate(shards, 1):
            file = "pytorch_model.bin" if len(shards) == 1 else f"pytorch_model-{number:05}-of-{len(shards):05}.bin"
            # A transposed matrix, as training with other layouts leaves them.
            part = {name: state[name].T.contiguous().T if "down_proj" in name else state[name] for name in names}
            torch.save(part, folder / file)
            weight_map |= dict.fromkeys(names, file)
        if len(shards) > 1:
            write_json(folder / "pytorch_model.bin.index.json", {"metadata": {}, "weight_map": weight_map})
        write_json(folder / "expected.json", converted(ctx, folder))
        (folder / "tokenizer.model").unlink()


# Meta's name, the Hub's, and the dimension by which shards divide it.
META = {
    "tok_embeddings.weight": ("model.embed_tokens.weight", 1), "norm.weight": ("model.norm.weight", None),
    "output.weight": ("lm_head.weight", 0),
}
META_LAYER = {
    "attention.wq.weight": ("self_attn.q_proj.weight", 0), "attention.wk.weight": ("self_attn.k_proj.weight", 0),
    "attention.wv.weight": ("self_attn.v_proj.weight", 0), "attention.wo.weight": ("self_attn.o_proj.weight", 1),
    "feed_forward.w1.weight": ("mlp.gate_proj.weight", 0), "feed_forward.w2.weight": ("mlp.down_proj.weight", 1),
    "feed_forward.w3.weight": ("mlp.up_proj.weight", 0), "attention_norm.weight": ("input_layernorm.weight", None),
    "ffn_norm.weight": ("post_attention_layernorm.weight", None),
}
MOE_LAYER = {name: row for name, row in META_LAYER.items() if "feed_forward" not in name} | {
    "feed_forward.gate.weight": ("block_sparse_moe.gate.weight", None)} | {
    f"feed_forward.experts.{i}.{w}.weight": (f"block_sparse_moe.experts.{i}.{w}.weight", None)
    for i in range(3) for w in ("w1", "w2", "w3")}
# Shards -> params.json, config of the copy, whether the embedding is divided by rows, what of rotary tables is there.
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=8192)
MODELS = {
    "meta-1": dict(shards=1, params=dict(norm_eps=1e-6, vocab_size=-1), config=dict(max_position_embeddings=2048,
        rms_norm_eps=1e-6), heads=4, kv=4, dtype=torch.float16, tables=["rope.freqs"]),
    "meta-2": dict(shards=2, params=dict(norm_eps=1e-5, vocab_size=-1), config=dict(max_position_embeddings=4096,
        rms_norm_eps=1e-5), heads=4, kv=4, tables=["layers.0.attention.inner_attention.rope.freqs"]),
    "meta-4": dict(shards=4, params=dict(norm_eps=1e-5, vocab_size=96, n_kv_heads=4, ffn_dim_multiplier=1.3,
        rope_theta=500000.0, use_scaled_rope=True), config=dict(max_position_embeddings=131072, rms_norm_eps=1e-5,
        rope_parameters=LLAMA3_ROPE), heads=8, kv=4, rows=True, tables=[]),
    "meta-8": dict(shards=8, params=dict(norm_eps=1e-5, vocab_size=-1, n_kv_heads=8), config=dict(
        max_position_embeddings=4096, rms_norm_eps=1e-5), heads=8, kv=8, tables=["rope.freqs"]),
    "meta-moe": dict(shards=1, params=dict(norm_eps=1e-5, vocab_size=96, n_kv_heads=2, moe=dict(num_experts=3,
        num_experts_per_tok=2)), config=dict(max_position_embeddings=32768, rms_norm_eps=1e-5, num_local_experts=3,
        num_experts_per_tok=2, rope_parameters=dict(rope_type="default", rope_theta=1e6)), heads=4, kv=2, tables=[]),
}
DIM, WIDTH = 32, 24


def model_tensors(heads: int, kv: int, dtype, layers=1, names=META_LAYER) -> dict:
    """Tensors under Meta's names, in no order."""
    rows = {"wq": DIM, "wk": DIM // heads * kv, "wv": DIM // heads * kv, "w1": WIDTH, "w3": WIDTH, "gate": 3}
    tensors = {}
    for name in [*META, *(f"layers.{i}.{name}" for i in range(layers) for name in names)]:
        kind = name.split(".")[-2]
        if kind.endswith("norm"):
            tensors[name] = (1 + torch.randn(DIM) * 0.1).to(dtype)
        elif kind in ("tok_embeddings", "output"):
            tensors[name] = torch.randn(96, DIM).to(dtype)
        else:
            tensors[name] = (torch.randn(rows.get(kind, DIM), WIDTH if kind == "w2" else DIM) * 0.2).to(dtype)
    return tensors


def copy_of(tensors: dict, heads: int, kv: int, names=META_LAYER) -> dict:
    """The same as the Hub has it: `permute` of convert_llama_weights_to_hf.py."""
    copy = {}
    for name, tensor in tensors.items():
        if name in META:
            copy[META[name][0]] = tensor
            continue
        _, layer, rest = name.split(".", 2)
        if rest in ("attention.wq.weight", "attention.wk.weight"):
            n = heads if "wq" in rest else kv
            tensor = tensor.view(n, tensor.shape[0] // n // 2, 2, DIM).transpose(1, 2).reshape(tensor.shape)
        copy[f"model.layers.{layer}.{names[rest][0]}"] = tensor.contiguous()
    return copy


def make_meta(ctx, out: Path) -> None:
    from safetensors.torch import save_file
    from transformers import LlamaConfig, MixtralConfig
    for name, spec in MODELS.items():
        torch.manual_seed(int(name[-1], 36))
        names = MOE_LAYER if name == "meta-moe" else META_LAYER
        tensors = model_tensors(spec["heads"], spec["kv"], spec.get("dtype", torch.bfloat16), names=names)
        copy, folder = ctx.scratch / "copy" / name, out / name
        common = dict(vocab_size=96, hidden_size=DIM, intermediate_size=WIDTH, num_hidden_layers=1,
            num_attention_heads=spec["heads"], num_key_value_heads=spec["kv"], bos_token_id=1, eos_token_id=2)
        kind = (MixtralConfig, "MixtralForCausalLM") if name == "meta-moe" else (LlamaConfig, "LlamaForCausalLM")
        write_config(kind[0](**common, architectures=[kind[1]], **spec["config"]), copy)
        save_file(copy_of(tensors, spec["heads"], spec["kv"], names), copy / "model.safetensors", metadata={"format": "pt"})
        shutil.copy(out / "tokenizer.model", copy)
        folder.mkdir()
        write_json(folder / "expected.json", converted(ctx, copy))
        write_json(folder / "params.json", dict(dim=DIM, multiple_of=8, n_heads=spec["heads"], n_layers=1, **spec["params"]))
        n = spec["shards"]
        for shard in range(n):
            part = {}
            for tensor, value in tensors.items():
                axis = (META.get(tensor) or names[tensor.split(".", 2)[2]])[1]
                axis = 0 if spec.get("rows") and tensor == "tok_embeddings.weight" else axis
                part[tensor] = value if axis is None or n == 1 else value.chunk(n, axis)[shard].clone()
            part |= {table: torch.rand(DIM // spec["heads"] // 2) for table in spec["tables"]}
            if n > 1 and spec["tables"]:
                part |= {table: torch.arange(DIM // spec["heads"] // 2).float() for table in spec["tables"]}
            torch.save(part, folder / f"consolidated.{shard:02}.pth")


def make_mistral(ctx, out: Path) -> None:
    from safetensors.torch import save_file
    heads, kv = 4, 2
    base = dict(dim=DIM, n_layers=2, head_dim=8, hidden_dim=WIDTH, n_heads=heads, n_kv_heads=kv, norm_eps=1e-5,
        vocab_size=96, rope_theta=1e6)
    yarn = dict(factor=16.0, original_max_position_embeddings=8192, alpha=1.0, beta=32.0, apply_scale=False)
    specs = {
        "mistral-spm": dict(params=base),
        "mistral-sharded": dict(params=base | dict(yarn=yarn, max_position_embeddings=4096, sliding_window=512), shards=2),
        "mistral-scaled": dict(params=base | dict(n_layers=1, yarn=yarn | dict(apply_scale=True),
            llama_4_scaling=dict(original_max_position_embeddings=8192, beta=0.1)), layers=1),
        "mistral-fp8": dict(params=base | dict(n_layers=1, quantization=dict(qformat_weight="fp8_e4m3")), layers=1, fp8=True),
    }
    for name, spec in specs.items():
        torch.manual_seed(len(name))
        tensors = model_tensors(heads, kv, torch.bfloat16, layers=spec.get("layers", 2))
        if spec.get("fp8"):
            for tensor in [name for name in tensors if ".w" in name]:
                scale = tensors[tensor].float().abs().max() / 448
                tensors[tensor] = (tensors[tensor].float() / scale).to(torch.float8_e4m3fn)
                stem = tensor.removesuffix("weight")
                tensors |= {stem + "qscale_weight": scale.bfloat16(), stem + "qscale_act": torch.tensor(0.5).bfloat16()}
        folder = out / name
        folder.mkdir()
        shutil.copy(out / "tokenizer.model", folder / "tokenizer.model.v3")
        write_json(folder / "params.json", spec["params"])
        n = spec.get("shards", 1)
        order = list(tensors)
        for shard in range(n):
            file = "consolidated.safetensors" if n == 1 else f"consolidated-{shard + 1:05}-of-{n:05}.safetensors"
            save_file({tensor: tensors[tensor] for tensor in order[shard::n]}, folder / file)
        write_json(folder / "expected.json", converted(ctx, folder, "--mistral-format"))
        (folder / "tokenizer.model.v3").unlink()


# Shapes of a layer of Mistral Large 3: latent attention of 4 heads, and 3 experts beside one that all tokens pass.
LATENT = {"attention_norm": [DIM], "ffn_norm": [DIM], "attention.wq_a": [24, DIM], "attention.q_a_norm": [24],
          "attention.wq_b": [80, 24], "attention.wkv_a_with_mqa": [24, DIM], "attention.kv_a_norm": [16],
          "attention.wkv_b": [88, 16], "attention.wo": [DIM, 40]}
DENSE = {"feed_forward.w1": [WIDTH, DIM], "feed_forward.w2": [DIM, WIDTH], "feed_forward.w3": [WIDTH, DIM]}
EXPERT = {"w1": [16, DIM], "w2": [DIM, 16], "w3": [16, DIM]}
MIXTURE = {"gate": [3, DIM]} | {f"{part}.{name}": shape for name, shape in EXPERT.items() for part in (
    "experts.0", "experts.1", "experts.2", "shared_experts")}


def make_mistral_moe(ctx, out: Path) -> None:
    from safetensors.torch import save_file
    torch.manual_seed(36)
    shapes = {"tok_embeddings": [96, DIM], "norm": [DIM], "output": [96, DIM]} | {
        f"layers.{layer}.{name}": shape for layer, part in enumerate((DENSE, MIXTURE))
        for name, shape in (LATENT | part).items()}
    tensors = {f"{name}.weight": ((torch.randn(shape) * 0.2) + (1 if name.endswith("norm") else 0)).bfloat16()
               for name, shape in shapes.items()}
    folder = out / "mistral-moe"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(out / "tokenizer.model", folder / "tokenizer.model.v3")
    write_json(folder / "params.json", dict(dim=DIM, n_layers=2, head_dim=20, hidden_dim=WIDTH, n_heads=4, n_kv_heads=4,
        norm_eps=1e-6, vocab_size=96, rope_theta=1e4, q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8,
        qk_nope_head_dim=12, v_head_dim=10, tied_embeddings=False, max_position_embeddings=4096,
        yarn=dict(factor=16.0, original_max_position_embeddings=8192, alpha=1.0, beta=32.0, apply_scale=False),
        llama_4_scaling=dict(original_max_position_embeddings=8192, beta=0.1), moe=dict(num_experts=3,
            num_experts_per_tok=2, first_k_dense_replace=1, route_every_n=1, expert_hidden_dim=16, routed_scale=1.0,
            num_shared_experts=1, num_expert_groups=1, num_expert_groups_per_tok=1, expert_parallel=1)))
    save_file(tensors, folder / "consolidated.safetensors")
    # The reference looks into Hugging Face's config for a class, whatever the layout.
    write_json(folder / "config.json", dict(architectures=["MistralForCausalLM"], model_type="mistral"))
    write_json(folder / "expected.json", converted(ctx, folder, "--mistral-format"))
    for name in ("config.json", "tokenizer.model.v3"):
        (folder / name).unlink()


# The reference's converter of Hugging Face's layout, with the tokenizer of Mistral's.
WITH_TOKENIZER = """
import sys
sys.path.insert(0, sys.argv[1])
from conversion.llama import LlamaModel
def set_vocab(self):
    self.is_mistral_format = True
    self._set_vocab_mistral()
    self.is_mistral_format = False
LlamaModel.set_vocab = set_vocab
sys.argv = sys.argv[1:]
import convert_hf_to_gguf
convert_hf_to_gguf.main()
"""


def make_mixtral(ctx, out: Path) -> None:
    from safetensors.torch import save_file
    from transformers import MixtralConfig
    torch.manual_seed(35)
    tensors = model_tensors(4, 2, torch.bfloat16, names=MOE_LAYER)
    keys = dict(vocab_size=96, hidden_size=DIM, intermediate_size=WIDTH, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2, rms_norm_eps=1e-5)
    config = MixtralConfig(**keys, bos_token_id=1, eos_token_id=2, max_position_embeddings=32768,
        architectures=["MixtralForCausalLM"], rope_parameters=dict(rope_type="default", rope_theta=1e6))
    for name in ("mixtral-stacked", "mistral-mixtral"):
        folder, copy = out / name, ctx.scratch / "copy" / name
        shutil.rmtree(folder, ignore_errors=True)
        write_config(config, copy)
        if name == "mixtral-stacked":
            save_file(copy_of(tensors, 4, 2, MOE_LAYER), copy / "model.safetensors", metadata={"format": "pt"})
        else:
            # The order of Mistral's names: a part for each tensor.
            for at, tensor in enumerate(sorted(tensors), 1):
                part = copy_of({tensor: tensors[tensor]}, 4, 2, MOE_LAYER)
                save_file(part, copy / f"model-{at:05}-of-{len(tensors):05}.safetensors", metadata={"format": "pt"})
        tokenizer = "tokenizer.model" if name == "mixtral-stacked" else "tokenizer.model.v3"
        shutil.copy(out / "tokenizer.model", copy / tokenizer)
        folder.mkdir()
        if name == "mixtral-stacked":
            write_json(folder / "expected.json", converted(ctx, copy))
            write_json(folder / "params.json", keys | dict(rope_theta=1e6))
            experts = ".feed_forward.experts."
            layer, stacks = "layers.0.block_sparse_moe.", {}
            for w in ("w1", "w2", "w3"):
                matrices = [tensors[f"layers.0{experts}{i}.{w}.weight"] for i in range(3)]
                stacks[layer + w] = torch.cat([matrix.T if w == "w2" else matrix for matrix in matrices])
            stacks[layer + "gate.weight"] = tensors["layers.0.feed_forward.gate.weight"]
            plain = {name: tensor for name, tensor in tensors.items() if "feed_forward" not in name}
            for shard, part in enumerate((stacks | {"norm.weight": plain.pop("norm.weight")}, plain)):
                torch.save(part, folder / f"consolidated.{shard:02}.pt")
            continue
        expected = {}
        for outtype in OUTTYPES:
            file = ctx.scratch / f"{name}-{outtype}.gguf"
            subprocess.run([sys.executable, "-c", WITH_TOKENIZER, ctx.reference, copy, "--outtype", outtype, "--outfile", file],
                check=True, capture_output=True)
            expected[outtype] = [file.stat().st_size, sha256(file.read_bytes())]
        write_json(folder / "expected.json", expected)
        write_json(folder / "params.json", dict(dim=DIM, n_layers=1, head_dim=8, hidden_dim=WIDTH, n_heads=4, n_kv_heads=2,
            norm_eps=1e-5, vocab_size=96, rope_theta=1e6, moe=dict(num_experts=3, num_experts_per_tok=2)))
        save_file(tensors, folder / "consolidated.safetensors")


def make_adapter(ctx, out: Path) -> None:
    """The adapter golden/lora/llama as a pickle: the reference makes the same file of it."""
    from safetensors.torch import load_file
    source, folder = ctx.golden / "lora" / "llama", ctx.scratch / "adapter" / "llama"
    folder.mkdir(parents=True)
    for name in ("adapter_config.json", "README.md"):
        shutil.copy(source / name, folder)
    torch.save(load_file(source / "adapter_model.safetensors"), folder / "adapter_model.bin")
    expected = [line.split() for line in (source / "expected.txt").read_text().splitlines()[1:]]
    for outtype, _, _, digest in expected:
        before = set(folder.iterdir())
        subprocess.run([sys.executable, ctx.reference / "convert_lora_to_gguf.py", folder, "--outtype", outtype, "--base",
            ctx.checkpoint("llama-head-dim")], check=True, capture_output=True)
        [made] = set(folder.iterdir()) - before
        assert sha256(made.read_bytes()) == digest, outtype
        made.unlink()
    shutil.copy(folder / "adapter_model.bin", out)


def make(ctx) -> None:
    out = ctx.golden / "torch"
    if ctx.only == ["mixtral"]:
        return make_mixtral(ctx, out)
    if ctx.only == ["mistral-moe"]:
        return make_mistral_moe(ctx, out)
    shutil.rmtree(out, ignore_errors=True)
    for name, write in (("forms", make_forms), ("refused", make_refused)):
        (out / name).mkdir(parents=True)
        write(out / name)
    make_tokenizer(out)
    make_folders(ctx, out)
    make_meta(ctx, out)
    make_mistral(ctx, out)
    make_mixtral(ctx, out)
    make_mistral_moe(ctx, out)
    make_adapter(ctx, out)
