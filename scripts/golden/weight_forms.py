"""What the makers of quantized checkpoints share: how a golden of golden/dialects is written.

A folder of golden/dialects has config.json, model.safetensors as the owner's library saves it, and expected.txt:

  NAME value SHAPE SHA256      of the tensor as f32, by the library or by its formula in numpy
  NAME DTYPE SHA256            of the library's own output in this type
  NAME PIECE f32 SHA256        of a decoded piece (codes, scales, zeros) as f32
  NAME blocks TYPE SHA256      of the blocks of a ggml type that the reference makes of the codes
  * gguf SHA256                of the file that the reference makes of the decoded checkpoint at f32, or of the same codes
                               as a form that it reads has them
  * tokenizer NAME PRE         the tokenizer of that file, of golden/arch-tokenizers, and its pre-tokenizer; spm-384 if none
"""

import json
import shutil
import subprocess
import sys

import numpy as np

from lib import sha256


def raw(values) -> bytes:
    """The bytes of a tensor of torch or numpy."""
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values).tobytes()
    import torch
    values = values.detach().cpu().contiguous()
    return values.reshape(-1).view(torch.uint8).numpy().tobytes() if values.numel() else b""


def shape_of(values) -> str:
    return "[" + ",".join(str(n) for n in values.shape) + "]"


class Golden:
    """One folder of golden/dialects."""

    def __init__(self, ctx, name: str, quantization: dict, config: dict | None = None, key="quantization_config"):
        self.folder = ctx.golden / "dialects" / name
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        self.ctx, self.tensors, self.lines, self.values = ctx, {}, [], {}
        config = dict(config or {"model_type": "llama", "architectures": ["LlamaForCausalLM"]})
        config |= {key: quantization} if isinstance(key, str) else {one: quantization for one in key}
        (self.folder / "config.json").write_text(json.dumps(config, indent=2, default=str) + "\n")

    def value(self, name: str, values) -> None:
        """The f32 value of a tensor."""
        values = np.ascontiguousarray(values if isinstance(values, np.ndarray) else values.detach().float().numpy())
        assert values.dtype == np.float32
        self.values[name] = values
        self.lines.append(f"{name} value {shape_of(values)} {sha256(raw(values))}")

    def library(self, name: str, values) -> None:
        """The library's output, in its own type."""
        self.lines.append(f"{name} {str(values.dtype).removeprefix('torch.')} {sha256(raw(values))}")

    def piece(self, name: str, piece: str, values) -> None:
        """A decoded piece as f32."""
        values = values.float().numpy() if not isinstance(values, np.ndarray) else values.astype(np.float32)
        self.lines.append(f"{name} {piece} f32 {sha256(raw(values))}")

    def write(self, metadata: dict | None = None, save=None) -> None:
        path = self.folder / "model.safetensors"
        if save:
            save(path)
        else:
            from safetensors.torch import save_file
            kept = {name: tensor.detach().contiguous().clone() for name, tensor in self.tensors.items()}
            save_file(kept, path, metadata=metadata or {"format": "pt"})
        (self.folder / "expected.txt").write_text("".join(line + "\n" for line in self.lines))
        size = sum(path.stat().st_size for path in self.folder.iterdir())
        print(f"{self.folder.name}: {size} bytes")

    def reference_file(self, plain: dict, config: dict, base: str = "llama-bias") -> None:
        """Adds the digest of what the reference makes of the decoded checkpoint, all tensors in f32."""
        from safetensors.numpy import save_file
        folder = self.ctx.scratch / "decoded" / self.folder.name
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(self.ctx.checkpoint(base), folder)
        save_file({name: np.ascontiguousarray(values) for name, values in plain.items()}, folder / "model.safetensors",
                  metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        out = self.ctx.scratch / "decoded.gguf"
        subprocess.run([sys.executable, self.ctx.reference / "convert_hf_to_gguf.py", folder, "--outtype", "f32",
                        "--outfile", out], check=True, capture_output=True)
        self.lines.append(f"* gguf {sha256(out.read_bytes())}")

    def reference_twin(self, tensors: dict, config: dict, tokenizer: str = "spm-384", pre: str = "default") -> None:
        """Adds the digest of what the reference makes of `tensors` (torch), which mean the same in a form that it reads."""
        from safetensors.torch import save_file
        folder = self.ctx.scratch / "decoded" / self.folder.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.ctx.golden / "arch-tokenizers" / tokenizer, folder)
        save_file({name: tensor.contiguous().clone() for name, tensor in sorted(tensors.items())},
                  folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        self.reference_folder(folder, tokenizer, pre)

    def reference_folder(self, folder, tokenizer: str, pre: str) -> None:
        """Adds the digest of what the reference makes of a whole folder."""
        from arch import convert
        out = convert(folder, self.ctx.scratch / "decoded.gguf", "f32", pre, {})
        self.lines.append(f"* gguf {sha256(out.read_bytes())}")
        if tokenizer != "spm-384":
            self.lines.append(f"* tokenizer {tokenizer} {pre}")


def small_llama(ctx, base: str = "llama-bias"):
    """The config and the tensors (torch, bf16) of the first layer of a tiny llama with biases."""
    from safetensors.torch import load_file
    folder = ctx.checkpoint(base)
    config = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 1}
    tensors = load_file(folder / "model.safetensors")
    return config, {name: tensor for name, tensor in tensors.items() if not name.startswith("model.layers.1.")}


def is_linear(name: str) -> bool:
    """A matrix of a layer."""
    return name.endswith("_proj.weight")


def modelopt_nvfp4(algo: str = "W4A16_NVFP4") -> dict:
    """The config of NVFP4 as ModelOpt writes it, which the reference reads."""
    return dict(quant_method="modelopt", quant_algo=algo, producer=dict(name="modelopt", version="0.47.0"))
