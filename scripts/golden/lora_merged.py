"""Makes golden/lora-merged/: adapters by PEFT, and the files that their base models become with them merged.

Needs torch, transformers and peft (0.21.2), and what the reference's converter needs. Each folder holds adapters as
`save_pretrained` writes them (one folder each) and `expected.txt`:

    # base NAME
    # pre NAME                     of the pre-tokenizer, where the converter does not know it
    # lora FOLDER[=SCALE]          one line for each adapter, in the order of merging
    # peft N elements, M differ, at most K ulp
    TYPE SHA256                    of the whole GGUF file

The files are those of the reference's converter for the base model's folder with merged weights in f32; q4_K_M is
llama-quantize's of the f32 file. Merged weights are computed here with numpy, operation by operation as `emulated` states
it, and compared with those of PEFT's `merge_and_unload` in f32: bit for bit, but for magnitudes (DoRA), whose norms torch
sums in an order that depends on the processor.
"""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from lib import seed_of, sha256

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Name -> base model, adapters: arguments of LoraConfig, `scale`, the dtype that the adapter is saved in,
# and whether the base model's embedding is not to be saved beside its pair.
# `quantized` asks for a file by llama-quantize as well, `ulps` how far PEFT may be.
CASES = {
    "patterns": dict(base="llama-head-dim", adapters=[dict(r=4, lora_alpha=6, target_modules=LINEAR, dtype="bfloat16",
        rank_pattern={"layers.1.mlp.down_proj": 2, "v_proj": 5, "o_proj": 48}, alpha_pattern={r"layers\.0\..*q_proj": 3,
            "k_proj": 7.5})]),
    "rslora": dict(base="llama-head-dim", adapters=[dict(r=3, lora_alpha=10, target_modules=["q_proj", "up_proj", "lm_head",
        "embed_tokens"], use_rslora=True, scale=0.3, dtype="float16", no_embedding=True)]),
    "tied": dict(base="ernie4_5", adapters=[dict(r=2, lora_alpha=4, target_modules=["embed_tokens", "v_proj"])]),
    "whole": dict(base="llama-bias", adapters=[dict(r=2, lora_alpha=3, target_modules=["q_proj", "o_proj"], bias="all",
        modules_to_save=["lm_head", "input_layernorm"], lora_bias=True, dtype="bfloat16")]),
    "untied": dict(base="ernie4_5", adapters=[dict(r=2, lora_alpha=4, target_modules=["v_proj"], modules_to_save=["lm_head"])]),
    "tied-both": dict(base="llama-tied-both", adapters=[dict(r=1, lora_alpha=2, target_modules=["embed_tokens"],
        no_embedding=True)]),
    "gpt2": dict(base="gpt2", pre="llama-bpe", given=dict(n_ctx=64), adapters=[dict(r=3, lora_alpha=5, target_modules=["c_attn", "c_proj", "c_fc", "wte"],
        fan_in_fan_out=True)]),
    "dora": dict(base="llama-head-dim", ulps=8, adapters=[dict(r=2, lora_alpha=3, use_dora=True, target_modules=["q_proj",
        "o_proj", "down_proj", "embed_tokens"], no_embedding=True)]),
    "dora-gpt2": dict(base="gpt2", pre="llama-bpe", given=dict(n_ctx=64), ulps=8, adapters=[dict(r=2, lora_alpha=3, use_dora=True, fan_in_fan_out=True,
        target_modules=["c_proj", "c_fc", "wte"])]),
    "several": dict(base="llama-head-dim", adapters=[
        dict(r=2, lora_alpha=3, target_modules=["q_proj", "up_proj"], dtype="bfloat16"),
        dict(r=3, lora_alpha=5, target_modules=["q_proj", "k_proj"], scale=-0.25),
        dict(r=1, lora_alpha=1, target_modules=["up_proj", "q_proj"], scale=2.0)]),
    "dora-several": dict(base="llama-head-dim", ulps=64, adapters=[
        dict(r=2, lora_alpha=3, target_modules=["q_proj"]),
        dict(r=2, lora_alpha=2, target_modules=["q_proj", "down_proj"], use_dora=True, scale=0.5)]),
    "quantized": dict(base="llama", quantized=True, adapters=[dict(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj",
        "embed_tokens"], layers_to_transform=[1], dtype="bfloat16", no_embedding=True)]),
}
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
# Of stacks of matrices with less than 400 products torch rounds each product by itself: ranks are such that there are more.
# `saved` asks for PEFT's weights under the names that files have: transformers has experts in stacks, whatever the file has.
CASES |= {
    "parameters": dict(base="mixtral", saved=True, adapters=[dict(r=3, lora_alpha=5, target_modules=["q_proj"],
        target_parameters=EXPERTS, rank_pattern={"experts.down_proj": 2}, alpha_pattern={r"layers\.1\..*down_proj": 7},
        scale=-0.5)]),
    "parameters-stacked": dict(base="qwen3moe-stacked", pre="llama-bpe", given={}, saved=True, adapters=[dict(r=2, lora_alpha=3, target_modules=[],
        target_parameters=[*EXPERTS, "mlp.gate.weight"], use_rslora=True, dtype="bfloat16")]),
    "parameters-turned": dict(base="gpt-oss", pre="llama-bpe", given={}, saved=True, adapters=[dict(r=3, lora_alpha=4, target_modules=["o_proj"],
        target_parameters=EXPERTS), dict(r=1, lora_alpha=4, target_modules=[], target_parameters=EXPERTS, scale=0.25)]),
    "tokens": dict(base="llama-head-dim", adapters=[dict(r=2, lora_alpha=3, target_modules=["v_proj"], scale=0.5,
        trainable_token_indices=[383, 7, 0])]),
    "tokens-both": dict(base="llama-head-dim", adapters=[dict(r=2, lora_alpha=3, target_modules=["k_proj"], dtype="bfloat16",
        trainable_token_indices={"embed_tokens": [5, 4], "lm_head": [383]})]),
    "tokens-tied": dict(base="ernie4_5", adapters=[dict(r=2, lora_alpha=4, target_modules=["v_proj"],
        trainable_token_indices=[1, 90]), dict(r=2, lora_alpha=4, target_modules=["q_proj"], trainable_token_indices=[91])]),
}
OWN = ("scale", "dtype", "no_embedding")


def make_adapter(base: Path, spec: dict, folder: Path, seed: int) -> None:
    """An adapter with random weights, saved by PEFT."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    config = LoraConfig(task_type="CAUSAL_LM", **{key: value for key, value in spec.items() if key not in OWN})
    model = get_peft_model(model, config)
    dtype = getattr(torch, spec.get("dtype", "float32"))
    for name, parameter in model.named_parameters():
        if "lora_magnitude" in name:
            # Near the norm that it begins as, but not it.
            parameter.data *= 1 + 0.2 * torch.randn_like(parameter)
        elif "trainable_tokens_delta" in name:
            # Values, not changes: of the size that others in the embedding have.
            parameter.data = torch.randn_like(parameter) * 0.5
        elif "lora_" in name or "modules_to_save" in name or name.endswith("bias") and not spec.get("target_parameters"):
            parameter.data = torch.randn_like(parameter) * 0.1
            if "norm" in name:
                parameter.data += 1
    model.to(dtype).save_pretrained(folder, save_embedding_layers=False if "no_embedding" in spec else "auto")
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    # What it does not need, and the order of what it keeps.
    config = json.loads(path.read_text()) | dict(base_model_name_or_path="some-org/" + base.name)
    named = ("target_modules", "modules_to_save", "target_parameters")
    lists = {key: sorted(value) for key, value in config.items() if key in named and value}
    path.write_text(json.dumps(config | lists, indent=2, sort_keys=True) + "\n")


def by_peft(base: Path, folders: list, specs: list, saved: Path | None) -> dict:
    """The weights that PEFT makes of it, f32, by name; by those of a file that is written to `saved`."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    names = [folder.name for folder in folders]
    model = PeftModel.from_pretrained(model, folders[0], adapter_name=names[0])
    for folder in folders[1:]:
        model.load_adapter(folder, adapter_name=folder.name)
    for name, spec in zip(names, specs):
        for module in model.modules():
            if hasattr(module, "set_scale") and "scale" in spec:
                module.set_scale(name, spec["scale"])
    merged = model.merge_and_unload(adapter_names=names)
    if saved:
        merged.save_pretrained(saved)
        return read(saved / "model.safetensors")
    return {name: tensor.detach().numpy() for name, tensor in merged.state_dict().items()}


def read(path: Path) -> dict:
    from safetensors.torch import load_file
    return {name: tensor.float().numpy() for name, tensor in load_file(path).items()}


def product(b, a):
    """b @ a in f32 as a chain of fused operations from rank 0 up: the product of two f32 and the sum with a third fit a long
    double (64 bits) but for rare cases that differ by more than 2^16, where the sum is rounded twice."""
    total = np.zeros((b.shape[0], a.shape[1]), np.float32)
    for k in range(b.shape[1]):
        exact = b[:, k:k + 1].astype(np.longdouble) * a[k:k + 1].astype(np.longdouble)
        total = (exact + total.astype(np.longdouble)).astype(np.float32)
    return total


def norms(weight):
    """Of each row: the sum of squares in f64 in order, its root rounded to f32."""
    return np.sqrt(np.cumsum(weight.astype(np.float64) ** 2, axis=1)[:, -1]).astype(np.float32)


def matching(pattern: dict, module: str, otherwise):
    import re
    return next((value for key, value in pattern.items() if re.match(rf"(.*\.)?({key})$", module)), otherwise)


def expert_changes(a, b, rank: int) -> list:
    """B_e @ A_e of each expert: A (E r, in) by experts, B (out, r E) by ranks."""
    n = a.shape[0] // rank
    return [product(b[:, e::n], a[e * rank:(e + 1) * rank]) for e in range(n)]


def change_parameter(weights: dict, key: str, deltas: list) -> None:
    """Adds the change of each expert to a stack, to a stack of turned matrices, or to matrices of their own."""
    module, last = key.rsplit(".", 1)
    if key in weights and weights[key].ndim == 3:
        turned = weights[key].shape[1:] != deltas[0].shape
        stacked = np.stack([delta.T if turned else delta for delta in deltas])
        weights[key] = weights[key] + stacked
    elif key in weights:
        [delta] = deltas
        weights[key] = weights[key] + delta
    else:
        module = module.replace(".mlp.", ".block_sparse_moe.")
        for e, delta in enumerate(deltas):
            names = ["w2"] if last == "down_proj" else ["w1", "w3"]
            for name, part in zip(names, np.split(delta, len(names))):
                name = f"{module}.{e}.{name}.weight"
                weights[name] = weights[name] + part


def parameter_of(module: str, targets: list) -> str | None:
    """The parameter that a pair is of: the first of a module is wrapped first, the last has no `base_layer` in its name."""
    name, depth = module.replace(".base_layer", ""), module.count(".base_layer")
    order = ["gate_up_proj", "down_proj", "weight"]
    lasts = [target.rsplit(".", 1)[1] for target in targets if f"{name}.".endswith(f".{target.rsplit('.', 1)[0]}.")]
    lasts.sort(key=order.index, reverse=True)
    return f"{name}.{lasts[depth]}" if lasts else None


def emulated(base: dict, tied: bool, folders: list, specs: list) -> dict:
    """The weights of the base model with its adapters, f32, one numpy operation for each that the documentation of
    crates/conversion/src/merge/low_rank.rs states."""
    weights = {name: weight.copy() for name, weight in base.items()}
    unmerged = {}
    for folder, spec in zip(folders, specs):
        config = json.loads((folder / "adapter_config.json").read_text())
        tensors = {name.removeprefix("base_model.model."): tensor for name, tensor in
                   read(folder / "adapter_model.safetensors").items()}
        for name, tensor in tensors.items():
            if name.endswith(".token_adapter.trainable_tokens_delta"):
                name = name.replace("token_adapter.trainable_tokens_delta", "weight")
                indices = config["trainable_token_indices"]
                indices = indices if isinstance(indices, list) else indices[name.split(".")[-2]]
                weights[name] = weights[name].copy()
                weights[name][indices] = tensor
            elif ".lora_" not in name:
                name = name.replace(".base_layer.", ".")
                assert name == "lm_head.weight" or weights[name].shape == tensor.shape
                weights[name] = tensor
        for module in {name.split(".lora_")[0] for name in tensors if ".lora_" in name}:
            part = lambda name: tensors.get(f"{module}.{name}")
            is_embedding = part("lora_embedding_A") is not None
            a, b = ("lora_embedding_A", "lora_embedding_B") if is_embedding else ("lora_A.weight", "lora_B.weight")
            a, b = part(a), part(b)
            if key := parameter_of(module, config["target_parameters"] or []):
                rank, alpha = matching(config["rank_pattern"], key, config["r"]), matching(config["alpha_pattern"], key,
                    config["lora_alpha"])
                scale = np.float32(spec.get("scale", 1.0) * alpha / (math.sqrt(rank) if config["use_rslora"] else rank))
                change_parameter(weights, key, [delta * scale for delta in expert_changes(a, b, rank)])
                continue
            rank, alpha = matching(config["rank_pattern"], module, config["r"]), matching(config["alpha_pattern"], module,
                config["lora_alpha"])
            assert a.shape[0] == b.shape[1] == rank
            scale = np.float32(spec.get("scale", 1.0) * alpha / (math.sqrt(rank) if config["use_rslora"] else rank))
            name = f"{module}.weight"
            unmerged.setdefault(name, weights[name])
            is_turned = is_embedding or config["fan_in_fan_out"] and not module.endswith("lm_head")
            turn = (lambda matrix: matrix.T) if is_turned else (lambda matrix: matrix)
            delta = turn(product(b, a)) * scale
            weights[name] = weights[name] + delta
            if config["use_dora"]:
                factor = part("lora_magnitude_vector") / norms(turn(unmerged[name] + delta))
                weights[name] = turn(factor[:, None] * turn(weights[name]))
            if part("lora_B.bias") is not None:
                weights[f"{module}.bias"] = weights[f"{module}.bias"] + part("lora_B.bias") * scale
    if tied and "lm_head.weight" in base:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
    assert all(weight.dtype == np.float32 for weight in weights.values())
    return weights


def run(*command) -> None:
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def compare(ours: dict, theirs: dict, limit: int) -> str:
    """How far PEFT's weights are, in units in the last place; no further than `limit`."""
    count, differ, worst = 0, 0, 0
    for name, weight in ours.items():
        bits = [array.copy().view(np.int32).astype(np.int64) for array in (weight, theirs[name])]
        steps = np.abs(np.subtract(*[np.where(b < 0, -(b & 0x7FFFFFFF), b) for b in bits]))
        count, differ, worst = count + steps.size, differ + int((steps > 0).sum()), max(worst, int(steps.max()))
    assert worst <= limit, (worst, limit)
    return f"# peft {count} elements, {differ} differ, at most {worst} ulp"


def make(ctx) -> None:
    import arch
    import torch
    from safetensors.torch import save_file
    for name, case in CASES.items():
        if not ctx.wants(name):
            continue
        base, folder = ctx.checkpoint(case["base"]), ctx.golden / "lora-merged" / name
        shutil.rmtree(folder, ignore_errors=True)
        specs = case["adapters"]
        folders = [folder / f"adapter-{i}" for i in range(len(specs))]
        for i, (path, spec) in enumerate(zip(folders, specs)):
            make_adapter(base, spec, path, seed_of(f"{name}-{i}"))
        [weights] = base.glob("*.safetensors")
        tied = json.loads((base / "config.json").read_text()).get("tie_word_embeddings", False)
        merged = emulated(read(weights), tied, folders, specs)
        lines = [f"# base {case['base']}"] + ([f"# pre {case['pre']}"] if "pre" in case else [])
        lines += [f"# lora {path.name}" + (f"={spec['scale']}" if "scale" in spec else "") for path, spec in
            zip(folders, specs)]
        saved = ctx.scratch / "saved" / name if case.get("saved") else None
        lines.append(compare(merged, by_peft(base, folders, specs, saved), case.get("ulps", 0)))
        # The base model's folder under its own name, with other weights.
        whole = ctx.scratch / "merged" / name / base.name
        shutil.copytree(base, whole)
        if tied and "lm_head.weight" in merged and "lm_head.weight" not in read(weights):
            # An output that was trained apart from the embedding.
            config = json.loads((whole / "config.json").read_text()) | dict(tie_word_embeddings=False)
            (whole / "config.json").write_text(json.dumps(config))
        tensors = {key: torch.from_numpy(np.ascontiguousarray(weight)) for key, weight in merged.items()}
        save_file(tensors, whole / weights.name, metadata={"format": "pt"})
        for outtype in ("f32", "bf16"):
            path = ctx.scratch / f"{name}.{outtype}.gguf"
            if "pre" in case:
                # The tiny tokenizer is one that the reference's converter does not know.
                arch.convert(whole, path, outtype, case["pre"], dict(given=case["given"]))
            else:
                run(sys.executable, ctx.reference / "convert_hf_to_gguf.py", whole, "--outtype", outtype, "--outfile", path)
            lines.append(f"{outtype} {sha256(path.read_bytes())}")
        if case.get("quantized"):
            path = ctx.scratch / f"{name}.q4_k_m.gguf"
            run(ctx.program("llama-quantize"), ctx.scratch / f"{name}.f32.gguf", path, "q4_k_m")
            lines.append(f"q4_k_m {sha256(path.read_bytes())}")
        (folder / "expected.txt").write_text("\n".join(lines) + "\n")
        print(name, *lines[1:], sep="\n  ")
