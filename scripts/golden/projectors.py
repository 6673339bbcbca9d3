"""Makes golden/projectors/: tiny checkpoints with eyes and ears, and what the reference makes of their projectors.

A folder is like one of golden/arch; its `expected.json` lists what the reference's `--mmproj` writes at f32 (keys; type and
start of the digest of each tensor), other types at bf16 and f16, and has `whole`, the digests of whole files: those three, and q8_0 by
llama-quantize from the bf16 file. Recipes are PROJECTORS of the families' golden.py.

Values that the reference computes with torch's sines, exponentials and square roots differ in the last bits between processors.
Tensors in `near` of a recipe are replaced by zeros before hashing, and `near` of expected.json has a sample of their values.

Of a checkpoint that the reference fails on, what it makes of the same weights under the Hub's names is expected."""

import json
import shutil
import struct
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import checkpoint
from arch import kinds_of, listing, make_checkpoint, patched
from families import PROJECTORS
from lib import seed_of, sha256_of_file
from tiny_towers import PREPROCESSOR

OUTTYPES = ("f32", "bf16", "f16")


def renamed(folder: Path, pairs: list) -> None:
    """Other names in the header of a checkpoint, the order and the bytes of its tensors as they are."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        for old, new in pairs:
            name = name.replace(old, new)
        header[name] = entry
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:])


def for_reference(folder: Path, spec: dict, scratch: Path) -> Path:
    """The checkpoint as the reference is given it: the same folder, or one in the Hub's spelling."""
    if not (spec.get("hub") or spec.get("hub_config")):
        return folder
    copy = scratch / folder.name
    shutil.copytree(folder, copy)
    renamed(copy, spec.get("hub", []))
    config = json.loads((copy / "config.json").read_text()) | spec.get("hub_config", {})
    (copy / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    return copy


def convert(folder: Path, out: Path, outtype: str, names: dict) -> Path:
    """Runs the reference's converter of projectors in this process."""
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    file_type = dict(f32=gguf.LlamaFileType.ALL_F32, f16=gguf.LlamaFileType.MOSTLY_F16,
                     bf16=gguf.LlamaFileType.MOSTLY_BF16)[outtype]
    with torch.inference_mode():
        config = ModelBase.load_hparams(folder, False)
        model = get_model_class(get_model_architecture(config, ModelType.MMPROJ), mmproj=True)(folder, file_type, out)
        for source, name in names.items():
            for bid in range(model.block_count):
                key, _ = model.tensor_map.mapping[source.format(bid=bid)]
                model.tensor_map.mapping[source.format(bid=bid)] = (key, name.format(bid=bid))
        model.write()
    return model.fname_out


def sampled(path: Path, patterns: list) -> dict:
    """Returns every `step`-th value of each f32 tensor that matches a pattern, and replaces these tensors by zeros in the file."""
    import gguf
    import numpy as np
    samples, regions = {}, []
    for tensor in gguf.GGUFReader(path).tensors:
        if any(fnmatchcase(tensor.name, pattern) for pattern in patterns):
            assert tensor.tensor_type == gguf.GGMLQuantizationType.F32, tensor.name
            values = np.array(tensor.data).reshape(-1)
            # Odd, so that it does not divide a usual width and the sample has values of all columns.
            step = max(1, len(values) // 97) | 1
            samples[tensor.name] = dict(step=step, values=[float(value) for value in values[::step]])
            regions.append((int(tensor.data_offset), int(tensor.n_bytes)))
    for pattern in patterns:
        assert any(fnmatchcase(name, pattern) for name in samples), f"{path} lacks {pattern}"
    with path.open("r+b") as file:
        for offset, size in regions:
            file.seek(offset)
            file.write(bytes(size))
    return samples


def expect(folder: Path, spec: dict, quantize: Path | None, out: Path) -> None:
    metadata, tensors, file_names, whole, near = None, {}, {}, {}, {}
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as copies:
        copy = for_reference(folder, spec, Path(copies))
        for outtype in OUTTYPES:
            with patched(spec, copy):
                path = convert(copy, Path(scratch), outtype, spec.get("names", {}))
            file_names[outtype] = path.name
            if spec.get("near"):
                near = sampled(path, spec["near"])
            whole[outtype] = sha256_of_file(path)
            have, listed = listing(path)
            assert listed, "a projector of no tensors"
            metadata = metadata or have
            differing = [key for (key, *a), (_, *b) in zip(metadata, have, strict=True) if a != b]
            assert differing in (["general.file_type"], []), differing
            for name, shape, dtype, digest in listed:
                tensors.setdefault(name, [shape, {}])[1][outtype] = [dtype, digest[:12]]
            if outtype == "bf16" and quantize and not spec.get("no_q8_0"):
                quantized = Path(scratch) / "q8_0.gguf"
                subprocess.run([quantize, path, quantized, "q8_0", "1"], check=True, capture_output=True)
                whole["q8_0"] = sha256_of_file(quantized)
    for _, digests in tensors.values():
        for outtype in OUTTYPES[1:]:
            # The values are those of f32, rounded; `whole` holds them to it.
            dtype = digests.pop(outtype)[0]
            if dtype != digests["f32"][0]:
                digests[outtype] = dtype
    lines = ['{', '  "file_name": %s,' % json.dumps(file_names), '  "whole": %s,' % json.dumps(whole)]
    lines += ['  "near": %s,' % json.dumps(near)] if near else []
    lines += ['  "metadata": [']
    lines.append(",\n".join("    " + json.dumps(entry, ensure_ascii=False) for entry in metadata))
    lines += ['  ],', '  "tensors": [']
    lines.append(",\n".join("    " + json.dumps([name, *rest]) for name, rest in tensors.items()))
    lines += ['  ]', '}']
    out.write_text("\n".join(lines) + "\n")


def make(ctx) -> None:
    failed = []
    for name, spec in PROJECTORS.items():
        if not ctx.wants(name) or spec.get("ahead", False) != ("ahead" in ctx.inputs):
            continue
        files = dict(spec.get("files", {}))
        if (own := spec.get("preprocessor", {})) is not None:
            stated = (PREPROCESSOR | own).items()
            files["preprocessor_config.json"] = {key: value for key, value in stated if value is not None}
        if processor := spec.get("processor"):
            files["processor_config.json"] = processor
        folder = ctx.scratch / "projectors" / name
        try:
            tokenizer = make_checkpoint(name, spec | dict(files=files), folder)
            weights = checkpoint.seed_weights(folder, seed_of(name), kinds_of(spec))
            checkpoint.store(folder, seed_of(name), weights, tokenizer, "tokenizer_config" in spec, ctx.golden, "projectors")
            quantize = ctx.program("llama-quantize") if ctx.build else None
            expect(folder, spec, quantize, ctx.golden / "projectors" / name / "expected.json")
        except Exception as error:
            print(f"{name}: the reference fails: {error!r}", file=sys.stderr)
            failed.append(name)
            continue
        print(name, flush=True)
    if failed:
        raise SystemExit(f"the reference fails on {failed}")
