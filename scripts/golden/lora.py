"""Makes golden/lora/: tiny LoRA adapters as PEFT saves them, and what the reference makes of them.

Needs torch and safetensors, and what convert_lora_to_gguf.py needs; PEFT is not needed, for its files
are a list of pairs of matrices. `expected.txt` beside an adapter: its base model, then for each type the
file name that the reference gives, bytes and sha256 of the whole file.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from families import ADAPTERS
from lib import seed_of, sha256

RANK = 4


def make_adapter(name: str, spec: dict, base: Path, folder: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    torch.manual_seed(seed_of(name))
    dtype = getattr(torch, spec.get("dtype", "bfloat16"))
    tensors = {}
    add = lambda key, shape: tensors.__setitem__(key, (torch.randn(shape) * 0.05).to(dtype))
    for part in sorted(base.glob("model*.safetensors")):
        for key, weight in load_file(part).items():
            module = "base_model.model." + key.removesuffix(".weight")
            if spec.get("embedding") and key.endswith("embed_tokens.weight"):
                add(module + ".lora_embedding_A", [RANK, weight.shape[0]])
                add(module + ".lora_embedding_B", [weight.shape[1], RANK])
            elif spec.get("norms") and key.endswith("input_layernorm.weight"):
                add(module + ".weight", list(weight.shape))
            elif key.endswith(".weight") and any(module.endswith(target) for target in spec["targets"]):
                add(module + ".lora_A.weight", [RANK, weight.shape[1]])
                add(module + ".lora_B.weight", [weight.shape[0], RANK])
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = dict(peft_type="LORA", task_type="CAUSAL_LM", base_model_name_or_path="some-org/" + spec["base"], r=RANK,
        lora_alpha=16,
                  lora_dropout=0.05, bias="none", use_rslora=False, use_dora=False, fan_in_fan_out=False,
                      target_modules=spec["targets"],
                  modules_to_save=None, alpha_pattern={}, rank_pattern={}, inference_mode=True)
    config |= spec.get("more", {})
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    if name == "llama":
        (folder / "README.md").write_text(
            "---\nbase_model: some-org/Tiny-Llama-7B\nlibrary_name: peft\nlicense: mit\ntags:\n- lora\n---\n\n# An adapter\n")


def make(ctx) -> None:
    for name, spec in ADAPTERS.items():
        if not ctx.wants(name):
            continue
        folder = ctx.golden / "lora" / name
        make_adapter(name, spec, ctx.checkpoint(spec["base"]), folder)
        lines = [f"# base {spec['base']}"]
        with tempfile.TemporaryDirectory() as scratch:
            # Its output goes beside the adapter, under a name that it makes of the folder's.
            copy = Path(scratch) / name
            shutil.copytree(folder, copy)
            for outtype in ("f32", "f16", "bf16", "q8_0"):
                before = set(copy.iterdir())
                subprocess.run([sys.executable, ctx.reference / "convert_lora_to_gguf.py", copy, "--outtype", outtype,
                                "--base", ctx.checkpoint(spec["base"])], check=True, capture_output=True)
                [path] = set(copy.iterdir()) - before
                data = path.read_bytes()
                lines.append(f"{outtype} {path.name} {len(data)} {sha256(data)}")
        (folder / "expected.txt").write_text("\n".join(lines) + "\n")
        print(name)
