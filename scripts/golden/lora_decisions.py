"""Makes golden/lora-merged/{lev,nimble}: adapters with files that make their base another model, and the files of the newer converter
that merges them. They have the format of lora_merged.py, without a comparison with PEFT, which does not know these models.

With `--input ahead=1`, from a tree that has conversion/lev.py. The halves of pairs are multiples of 1/64, so that their products are
exact in every order."""

import json
import shutil
from unittest import mock

from lib import seed_of, sha256

BASE = "qwen3.5"
TARGETS = ("self_attn.q_proj", "linear_attn.in_proj_qkv", "linear_attn.out_proj", "mlp.down_proj")
CASES = {
    "lev": {"lev_release.json": dict(version=1), "calibration.json": dict(temperatures={"choice:A:small": 1.25, "score:A": 2,
        "noul:A": 0.875, "choice:B": 1.5})},
    "nimble": {"schema_config.json": dict(task="schema_candidate_classification_v2")},
}


def make_adapter(base, files: dict, folder, seed: int) -> None:
    import torch
    from safetensors.torch import load_file, save_file
    random, tensors = torch.Generator().manual_seed(seed), {}
    for name, weight in load_file(base / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if "layers." in name and not name.startswith("mtp.") and module.endswith(TARGETS):
            for half, shape in (("A", [2, weight.shape[1]]), ("B", [weight.shape[0], 2])):
                values = torch.randint(-32, 33, shape, generator=random).to(torch.bfloat16) / 64
                tensors[f"base_model.model.{module}.lora_{half}.weight"] = values
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = dict(peft_type="LORA", task_type="CAUSAL_LM", base_model_name_or_path="some-org/" + BASE, r=2, lora_alpha=3,
        bias="none", target_modules=sorted(target.split(".")[-1] for target in TARGETS))
    for file, values in (files | {"adapter_config.json": config}).items():
        (folder / file).write_text(json.dumps(values, indent=2) + "\n")


def make(ctx) -> None:
    if "ahead" not in ctx.inputs:
        return
    import arch
    base = ctx.checkpoint(BASE)
    # The converter downloads the base model.
    fetch = mock.patch.multiple("huggingface_hub", snapshot_download=lambda *_, **__: base,
        hf_hub_download=lambda _, file, **__: base / file)
    for name, files in CASES.items():
        if not ctx.wants(name):
            continue
        folder = ctx.golden / "lora-merged" / name
        shutil.rmtree(folder, ignore_errors=True)
        make_adapter(base, files, folder / "adapter-0", seed_of(name))
        # The model takes its name from the folder of the adapter; here it is that of the base.
        copy = shutil.copytree(folder / "adapter-0", ctx.scratch / name / BASE)
        lines = [f"# base {BASE}", "# pre llama-bpe", "# lora adapter-0", "# peft 0 elements, 0 differ, at most 0 ulp"]
        for outtype in ("f32", "bf16"):
            with fetch:
                path = arch.convert(copy, ctx.scratch / f"{name}.{outtype}.gguf", outtype, "llama-bpe", {})
            lines.append(f"{outtype} {sha256(path.read_bytes())}")
        (folder / "expected.txt").write_text("\n".join(lines) + "\n")
        print(name)
