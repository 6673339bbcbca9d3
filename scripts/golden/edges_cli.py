"""Makes golden/cli/passed.gguf and golden/cli/edges.txt: what the reference does at the edges.

passed.gguf is a llama of one layer with tensors of integers and doubles beside its weights, which quantizers pass
through. `quantize-*` are llama-quantize on it; `split-*` are the converter's own shards of golden/arch/llama;
`nonfinite-*` are the converter on that folder with four elements made NaN of both signs and infinities.

A line is: name | arguments for our binary | file bytes sha256 for each file. Needs numpy, gguf-py of the reference,
and what the converter needs.
"""

import json
import shutil
import struct
import subprocess
import sys

import gguf
import numpy as np

from lib import sha256

POISONED = "model.layers.1.mlp.down_proj.weight"
# Index in the tensor (rows of 512) and bits of the bf16.
POISON = [(3 * 512 + 7, 0x7FC0), (3 * 512 + 8, 0xFFC0), (5 * 512, 0x7F80), (5 * 512 + 511, 0xFF80)]


def passed(path):
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Passed")
    writer.add_context_length(128)
    writer.add_embedding_length(256)
    writer.add_block_count(1)
    writer.add_feed_forward_length(256)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)

    def weights(name, *shape):
        writer.add_tensor(name, (random.standard_normal(shape) * 0.02).astype(np.float32))

    weights("token_embd.weight", 16, 256)
    weights("blk.0.ffn_down.weight", 8, 256)
    weights("blk.0.attn_v.weight", 8, 256)
    weights("output_norm.weight", 256)
    for kind in (np.int8, np.int16, np.int32, np.int64):
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        name = np.dtype(kind).name
        writer.add_tensor(f"one.{name}", np.array([low, -1, 0, 1, high], kind))
        writer.add_tensor(f"two.{name}", random.integers(low, high, (3, 7), kind))
    writer.add_tensor("one.float64", np.array([1e30, -1e-300, 0.1, -0.0], np.float64))
    writer.add_tensor("two.float64", random.standard_normal((3, 7)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def poison(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    length = struct.unpack("<Q", data[:8])[0]
    begin = json.loads(data[8 : 8 + length])[POISONED]["data_offsets"][0]
    for index, bits in POISON:
        struct.pack_into("<H", data, 8 + length + begin + 2 * index, bits)
    path.write_bytes(data)


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr[-2000:]}")


def line(name, arguments, folder):
    files = sorted(folder.iterdir())
    text = f"{name}|{arguments}|"
    for file in files:
        data = file.read_bytes()
        text += f" {file.name} {len(data)} {sha256(data)}"
    shutil.rmtree(folder)
    folder.mkdir()
    return text


def make(ctx):
    golden, work = ctx.golden, ctx.scratch / "edges"
    passed(golden / "cli" / "passed.gguf")
    lines = ["# case | arguments | file bytes sha256 ..."]
    out = work / "out"
    out.mkdir(parents=True)
    for ftype in ("copy", "f16", "bf16", "q8_0", "q4_k_m", "iq4_xs"):
        run([ctx.program("llama-quantize"), golden / "cli" / "passed.gguf", out / "x.gguf", ftype, "1"])
        lines.append(line(f"quantize-{ftype}", f"passed.gguf out/x.gguf {ftype}", out))

    def convert(ftype, *more):
        script = ctx.reference / "convert_hf_to_gguf.py"
        run([sys.executable, script, work / "llama", "--outtype", ftype, "--outfile", out / "x.gguf", *more])

    shutil.copytree(ctx.checkpoint("llama"), work / "llama")
    for ftype in ("f32", "f16", "bf16"):
        for option, value in (("--split-max-tensors", "6"), ("--split-max-size", "1M")):
            convert(ftype, option, value)
            lines.append(line(f"split-{ftype}{option[11:]}", f"llama out/x.gguf --type {ftype} {option} {value}", out))
    poison(work / "llama")
    for ftype in ("f32", "f16", "bf16"):
        convert(ftype)
        lines.append(line(f"nonfinite-{ftype}", f"llama out/x.gguf --type {ftype} --allow-nonfinite", out))
    (golden / "cli" / "edges.txt").write_text("\n".join(lines) + "\n")

