"""Makes golden/forms/: tiny checkpoints of quantized weights and what the reference's converter makes of them.

A folder is like one of golden/arch (checkpoint.py says how its weights are made), with `expected.json` as arch.py writes it.
What quantized tensors there are is written by hand from the layouts that the owners' programs write; each codes tensor is
random, so that no value of it is special, and the scales are chosen below. Rows are those of FORMS in forms_*.py:

  config     config.json
  tensors    {name: "VALUES SHAPE DTYPE"} as in checkpoint.json
  files      other files of the folder, as JSON
  tokenizer  name of a folder of golden/arch-tokenizers
  fp8_as_q8  whether files are made with the reference's --fp8-as-q8 too
  quantized  file types that llama-quantize --allow-requantize makes of the bf16 file (with a build)
  ahead      True if only a newer tree than the pinned one reads the form (`--input ahead=1`)

`expected.json` has one key more: `whole`, the digests of the reference's whole files.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import checkpoint
from arch import convert, expect
from forms_fp4 import FORMS as FP4
from forms_fp8 import FORMS as FP8
from forms_ints import FORMS as INTS
from lib import seed_of, sha256, sha256_of_file

FORMS = FP4 | FP8 | INTS


def expect_whole(folder: Path, pre: str, spec: dict, out: Path, ctx) -> None:
    """The digests of whole files, beside what arch.py writes."""
    if "quantized" in spec and not ctx.build:
        raise SystemExit(f"{folder.name}: llama-quantize is needed: --build")
    with tempfile.TemporaryDirectory() as scratch:
        whole = {outtype: sha256_of_file(convert(folder, Path(scratch) / f"{outtype}.gguf", outtype, pre, {}))
                 for outtype in ("f32", "bf16")}
        if spec.get("fp8_as_q8"):
            whole |= {f"{outtype} fp8-as-q8": sha256_of_file(convert(
                folder, Path(scratch) / f"{outtype}-q8.gguf", outtype, pre, {}, fp8_as_q8=True))
                      for outtype in ("f32", "f16", "bf16")}
        for name in spec.get("quantized", ()):
            path = Path(scratch) / f"{name}.gguf"
            subprocess.run([ctx.program("llama-quantize"), "--allow-requantize", Path(scratch) / "bf16.gguf", path, name, "1"],
                           check=True, capture_output=True)
            whole[name] = sha256_of_file(path)
    out.write_text(out.read_text().replace("{\n", '{\n  "whole": %s,\n' % json.dumps(whole), 1))


def make(ctx) -> None:
    failed = []
    for name, spec in FORMS.items():
        if not ctx.wants(name) or spec.get("ahead", False) != ("ahead" in ctx.inputs):
            continue
        folder = ctx.scratch / "forms" / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ctx.golden / "arch-tokenizers" / spec["tokenizer"], folder)
        for file, content in {"config.json": spec["config"], **spec.get("files", {})}.items():
            (folder / file).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
        tensors = dict(sorted(spec["tensors"].items()))
        data = checkpoint.file_bytes(seed_of(name), tensors)
        (folder / "model.safetensors").write_bytes(data)
        files = {"model.safetensors": dict(sha256=sha256(data), tensors=tensors)}
        checkpoint.store(folder, seed_of(name), files, spec["tokenizer"], False, ctx.golden, "forms")
        try:
            pre = "llama-bpe" if spec["tokenizer"].startswith("bpe") else "default"
            expect(folder, pre, spec, ctx.golden / "forms" / name / "expected.json")
            expect_whole(folder, pre, spec, ctx.golden / "forms" / name / "expected.json", ctx)
        except Exception as error:
            print(f"{name}: the reference fails: {error!r}", file=sys.stderr)
            failed.append(name)
            continue
        print(name)
    if failed:
        raise SystemExit(f"the reference fails on {failed}")
