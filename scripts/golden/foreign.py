"""Makes golden/foreign/: tiny checkpoints, and the files that the converters of other runtimes make of them.

A folder is a whole tiny checkpoint as in golden/arch, with

  expected.json  format: name of the runtime; files: {type: [bytes, sha256 of the whole file]}

whisper.cpp: models/convert-h5-to-ggml.py, then whisper-quantize on its f16 file. The inputs are its tree with these programs in
build/bin, built without floating-point contraction, and the source package of openai-whisper, which has the mel filters.
The script needs vocab.json and F32, F16 weights in one file, which it is given in a copy of the folder.

Recipes are FOREIGN of the families' golden.py, with the keys of tiny_models.py and

  format  name of the runtime
  types   types of files besides f16 and f32
  dtype   of the weights: BF16 by default
  vocab   True to store vocab.json and added_tokens.json as well
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import arch
import checkpoint
from families import FOREIGN
from lib import seed_of, sha256_of_file


def weights(folder: Path) -> dict:
    from safetensors.torch import load_file
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}


def write_vocabulary(folder: Path) -> None:
    """vocab.json and added_tokens.json, as the slow tokenizer of transformers 4 saves them."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    # The order of the file differs from that of the ids.
    (folder / "vocab.json").write_text(json.dumps(dict(sorted(vocab.items())), ensure_ascii=False))
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"] if token["content"] not in vocab}
    (folder / "added_tokens.json").write_text(json.dumps(added))


def whisper_cpp(folder: Path, types: list, scratch: Path, ctx) -> dict:
    from safetensors.torch import save_file
    import torch
    copy = scratch / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.safetensors*"))
    write_vocabulary(copy)
    tensors = {name: tensor.to(torch.float32).clone() for name, tensor in weights(folder).items()}
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))
    tree = Path(ctx.inputs["whisper_cpp"])
    call = [sys.executable, tree / "models/convert-h5-to-ggml.py", copy, ctx.inputs["openai_whisper"], scratch]
    subprocess.run(call, check=True, capture_output=True)
    subprocess.run([*call, "use-f32"], check=True, capture_output=True)
    paths = {"f16": scratch / "ggml-model.bin", "f32": scratch / "ggml-model-f32.bin"}
    for kind in types:
        paths[kind] = scratch / f"{kind}.bin"
        subprocess.run([tree / "build/bin/whisper-quantize", paths["f16"], paths[kind], kind], check=True, capture_output=True)
    return {kind: [path.stat().st_size, sha256_of_file(path)] for kind, path in paths.items()}


def make_one(name: str, spec: dict, ctx) -> None:
    import torch
    from safetensors.torch import load_file, save_file
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        tokenizer = arch.make_checkpoint(name, spec, folder)
        if dtype := spec.get("dtype"):
            for path in folder.glob("*.safetensors"):
                tensors = {key: tensor.to(getattr(torch, dtype)) for key, tensor in load_file(path).items()}
                save_file(tensors, path, metadata={"format": "pt"})
        if spec.get("vocab"):
            write_vocabulary(folder)
        files = checkpoint.seed_weights(folder, seed_of(name))
        made = {"whisper.cpp": whisper_cpp}[spec["format"]](folder, spec["types"], Path(scratch), ctx)
        checkpoint.store(folder, seed_of(name), files, tokenizer, False, ctx.golden, "foreign")
        lines = ",\n".join(f"    {json.dumps(kind)}: {json.dumps(file)}" for kind, file in made.items())
        text = '{\n  "format": %s,\n  "files": {\n%s\n  }\n}\n' % (json.dumps(spec["format"]), lines)
        (ctx.golden / "foreign" / name / "expected.json").write_text(text)
    print(name)


def make(ctx) -> None:
    for name, spec in FOREIGN.items():
        if ctx.wants(name):
            make_one(name, spec, ctx)
