"""Makes golden/recipes/imatrix/: small importance matrices and what the reference makes of them.

mixtral.gguf and mixtral.dat are llama-imatrix's own output in both formats for golden/arch/mixtral and
TEXT; partial.gguf is the first with one expert's counts and sums put to zero, as the
tool writes it for an expert that saw nothing. FILE.txt lists

  weights NAME N SEEN SHA256   number of weights, what each matrix saw, sum of the little-endian floats
  key NAME TYPE VALUE          what llama-quantize notes in its output, in its order

The weights are computed here and then proven: for every tensor the bytes that llama-quantize writes with
the file must be those of ggml_quantize_chunk with these weights (Q4_0, which uses them), and must differ
without. The tool is given a path of more than 127 bytes, which it cuts. Needs numpy and the converter's packages.
"""

import ctypes
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from lib import sha256

# What the matrices are made of; it is the docstring that this file had then, and stays as it was.
TEXT = """Makes golden/recipes/imatrix/: small importance matrices and what the reference makes of them.

usage: recipes_imatrix.py --reference DIR --bin DIR OUT

  --reference DIR   root of the llama.cpp tree
  --bin DIR         folder with its llama-imatrix, llama-quantize and libggml-base.so
  OUT               the golden folder; arch/mixtral must be there

mixtral.gguf and mixtral.dat are llama-imatrix's own output in both formats for golden/arch/mixtral and
the first lines of this file; partial.gguf is the first with one expert's counts and sums put to zero, as the
tool writes it for an expert that saw nothing. FILE.txt lists

  weights NAME N SEEN SHA256   number of weights, what each matrix saw, sum of the little-endian floats
  key NAME TYPE VALUE          what llama-quantize notes in its output, in its order

The weights are computed here and then proven: for every tensor the bytes that llama-quantize writes with
the file must be those of ggml_quantize_chunk with these weights (Q4_0, which uses them), and must differ
without. The tool is given a path of more than 127 bytes, which it cuts. Needs numpy and the converter's packages.
"""
PATH = "an importance matrix under a long name/" * 3 + "that goes on and on.imatrix"


def weights_of_gguf(reader):
    tensors = {tensor.name: tensor.data.reshape(-1).astype(np.float32) for tensor in reader.tensors}
    for name in sorted(name.removesuffix(".counts") for name in tensors if name.endswith(".counts")):
        sums, counts = tensors[name + ".in_sum2"], tensors[name + ".counts"]
        rows = sums.reshape(len(counts), -1)
        weights = np.stack([row / np.float32(count) if count > 0 else np.ones_like(row) for row,
            count in zip(rows, counts)])
        yield name, weights.reshape(-1), [int(count) for count in counts]


def weights_of_dat(data):
    (n,), at = struct.unpack_from("<i", data), 4
    found = []
    for _ in range(n):
        (length,), at = struct.unpack_from("<i", data, at), at + 4
        name, at = data[at:at + length].decode(), at + length
        (calls, values), at = struct.unpack_from("<ii", data, at), at + 8
        weights, at = np.frombuffer(data, np.float32, values, at), at + 4 * values
        found.append((name, weights / np.float32(calls), [calls]))
    return sorted(found)


def make(ctx):
    from gguf import GGUFReader

    ggml = ctypes.CDLL(str(ctx.libraries / "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p,
        ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]

    def quantize(values, weights):
        """Q4_0 of (experts, rows, columns) with (experts, columns), or with none."""
        parts = []
        for expert, matrix in enumerate(values):
            matrix = np.ascontiguousarray(matrix, np.float32)
            row = None if weights is None else np.ascontiguousarray(weights[expert])
            out = np.zeros(matrix.size // 32 * 18, np.uint8)
            ggml.ggml_quantize_chunk(2, matrix.ctypes.data, out.ctypes.data, 0, *matrix.shape,
                None if row is None else row.ctypes.data)
            parts.append(out.tobytes())
        return b"".join(parts)

    folder = ctx.golden / "recipes/imatrix"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        model = scratch / "model.gguf"
        subprocess.run([sys.executable, ctx.reference / "convert_hf_to_gguf.py", "--outtype", "f32", "--outfile",
            model, ctx.checkpoint("mixtral")],
                       check=True, capture_output=True)
        (scratch / "text.txt").write_text(TEXT)
        for format in ("gguf", "dat"):
            subprocess.run([ctx.program("llama-imatrix"), "-m", model, "-f", "text.txt", "-c", "64", "--chunks", "3",
                "-t", "1", "--no-ppl",
                            "-o", folder / f"mixtral.{format}", "--output-format", format], check=True,
                                capture_output=True, cwd=scratch)
        partial = folder / "partial.gguf"
        shutil.copy(folder / "mixtral.gguf", partial)
        data = GGUFReader(partial, "r+")
        for tensor in data.tensors:
            if "_exps" in tensor.name:
                tensor.data[1] = 0
        del data

        plain = {tensor.name: tensor for tensor in GGUFReader(model).tensors}
        for path in (folder / "mixtral.gguf", folder / "mixtral.dat", partial):
            entries = list(weights_of_gguf(GGUFReader(path)) if path.suffix == ".gguf"
                else weights_of_dat(path.read_bytes()))
            named = scratch / PATH
            named.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, named)
            subprocess.run([ctx.program("llama-quantize"), "--pure", "--imatrix", PATH, model, scratch / "out.gguf",
                "Q4_0", "1"],
                           check=True, capture_output=True, cwd=scratch)
            output = GGUFReader(scratch / "out.gguf")
            written = {tensor.name: tensor for tensor in output.tensors}
            # Routers have entries and are never quantized.
            differs = proven = 0
            for name, weights, _ in entries:
                if written[name].tensor_type.name != "Q4_0":
                    assert "ffn_gate_inp" in name, name
                    continue
                proven += 1
                source = plain[name].data
                source = source.reshape((-1,) + source.shape[-2:])
                ours = quantize(source, weights.reshape(source.shape[0], -1))
                assert ours == written[name].data.tobytes(), (path, name)
                differs += ours != quantize(source, None)
            assert differs == proven, (path, differs, proven)
            lines = [f"weights {name} {len(weights)} {','.join(map(str, seen))} {sha256(weights.astype('<f4').tobytes())}"
                     for name, weights, seen in entries]
            for key, field in output.fields.items():
                if key.startswith("quantize."):
                    lines.append(f"key {key} {field.types[0].value} {field.contents()}")
            path.with_name(path.name + ".txt").write_text("\n".join(lines) + "\n")
            print(path.name, len(entries), "entries,", proven, "proven")
