"""Makes golden/quant/TYPE.txt: hashes of what the reference's block quantizers give for seeded data.

Needs numpy. `--input raw=LINE` also writes TYPE.LINE.bin: all bytes of that line (from 1). The library must be built
without floating-point contraction (x86-64, no -march: check that `objdump -d libggml-base.so | grep -c vfm` gives 0).
The data is that of data.py. Each type runs in a process of its own, because the reference aborts where it finds data
that it cannot quantize.
"""

import ctypes
import pathlib
from multiprocessing import Process

import numpy as np

from data import F, bytes_, values, weights
from lib import sha256

REFERENCE = "llama.cpp as vendored in llama-cpp-python 0.3.36, x86-64 without contraction"

# name: (ggml id, how it takes weights, data kinds beyond the usual three)
#   weights: "both" with and without, "only" with alone (the reference refuses without)
TYPES = {
    "f32": (0, "both", ["extreme", "bits"]),
    "f16": (1, "both", ["extreme", "bits"]),
    "bf16": (30, "both", ["extreme", "bits"]),
    "q4_0": (2, "both", ["extreme"]),
    "q4_1": (3, "both", ["extreme"]),
    "q5_0": (6, "both", ["extreme"]),
    "q5_1": (7, "both", ["extreme"]),
    "q8_0": (8, "both", ["extreme", "bits"]),
    "q8_1": (9, "both", ["extreme", "bits"]),
    "q2_K": (10, "both", ["extreme"]),
    "q3_K": (11, "both", ["extreme"]),
    "q4_K": (12, "both", ["extreme"]),
    "q5_K": (13, "both", ["extreme"]),
    "q6_K": (14, "both", ["extreme"]),
    "q8_K": (15, "both", ["extreme"]),
    "iq2_xxs": (16, "only", []),
    "iq2_xs": (17, "only", []),
    "iq3_xxs": (18, "both", []),
    "iq1_s": (19, "only", []),
    "iq4_nl": (20, "both", ["extreme"]),
    "iq3_s": (21, "both", []),
    "iq2_s": (22, "both", []),
    "iq4_xs": (23, "both", ["extreme"]),
    "iq1_m": (29, "both", []),
    "tq1_0": (34, "both", ["extreme", "bits"]),
    "tq2_0": (35, "both", ["extreme", "bits"]),
    "mxfp4": (39, "both", ["extreme", "bits"]),
    "nvfp4": (40, "both", ["extreme", "bits"]),
    "q1_0": (41, "both", ["extreme", "bits"]),
    "q2_0": (42, "both", ["extreme", "bits"]),
}
# Types that ggml_quantize_chunk does not know; their decoders are looked up by name.
BLOCKS_ONLY = {"q8_1": "quantize_row_q8_1_ref", "q8_K": "quantize_row_q8_K_ref"}
# Sample of the encoded bytes in the file, for the first row length: two stretches of every nasty kind.
SAMPLE_ELEMS = 28 * 256
CASE_ELEMS = 1 << 16

DATA = ["normal", "heavy", "nasty", "extreme", "bits"]
IMPORTANCE = ["mixed", "gaps"]


class Traits(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("block_elems", ctypes.c_int64),
        ("interleave", ctypes.c_int64),
        ("block_bytes", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
        ("from_float_ref", ctypes.c_void_p),
    ]


class Reference:
    def __init__(self, folder, name):
        self.lib = ctypes.CDLL(str(pathlib.Path(folder) / "libggml-base.so"))
        self.name, self.id = name, TYPES[name][0]
        self.lib.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
        self.traits = self.lib.ggml_get_type_traits(self.id).contents
        assert self.traits.name.decode() == name, self.traits.name
        self.lib.ggml_quantize_chunk.restype = ctypes.c_size_t
        self.lib.ggml_quantize_chunk.argtypes = [
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
            ctypes.c_void_p,
        ]  # fmt: skip

    def encode(self, x, row_elems, w):
        out = np.zeros(x.size // self.traits.block_elems * self.traits.block_bytes, np.uint8)
        if self.name in BLOCKS_ONLY:
            function = getattr(self.lib, BLOCKS_ONLY[self.name])
            function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
            function(x.ctypes.data, out.ctypes.data, x.size)
            return out
        n = self.lib.ggml_quantize_chunk(
            self.id, x.ctypes.data, out.ctypes.data, 0, x.size // row_elems, row_elems,
            None if w is None else w.ctypes.data,
        )  # fmt: skip
        assert n == out.size
        return out

    def decode(self, blocks):
        out = np.zeros(blocks.size // self.traits.block_bytes * self.traits.block_elems, F)
        if self.name == "f32":
            return blocks.view(F)
        if self.name == "q8_1":  # has no decoder; without the sum it is a q8_0 block
            blocks = blocks.reshape(-1, 36)
            blocks = np.concatenate([blocks[:, :2], blocks[:, 4:]], axis=1).copy()
            self.lib.dequantize_row_q8_0.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
            self.lib.dequantize_row_q8_0(blocks.ctypes.data, out.ctypes.data, out.size)
        elif self.name == "q8_K":
            self.lib.dequantize_row_q8_K.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
            self.lib.dequantize_row_q8_K(blocks.ctypes.data, out.ctypes.data, out.size)
        else:
            self.traits.to_float(blocks.ctypes.data, out.ctypes.data, out.size)
        return out


def decoded_sha256(x):
    bits = x.view(np.uint32).copy()
    bits[np.isnan(x)] = 0x7FC00000
    return sha256(bits.tobytes())


def make_type(folder, out, name, raw):
    reference = Reference(folder, name)
    block_elems, block_bytes = reference.traits.block_elems, reference.traits.block_bytes
    _, takes, more = TYPES[name]
    lengths = [256, 512, 4096]
    lengths += {1: [1, 7, 96], 32: [32, 96, 576], 64: [64, 192, 576], 128: [128, 384]}.get(block_elems, [])
    lines = []

    def add(line, blocks):
        lines.append(line)
        if raw == len(lines):
            blocks.tofile(out / f"{name}.{raw}.bin")

    for kind in ([None] if takes == "both" else []) + IMPORTANCE:
        for data in ["normal", "heavy", "nasty"] + more:
            for row_elems in lengths:
                n_rows = CASE_ELEMS // row_elems
                x = values(data, row_elems * 16 + DATA.index(data), n_rows * row_elems)
                w = kind and weights(kind, row_elems * 16 + 8 + IMPORTANCE.index(kind), row_elems)
                blocks = reference.encode(x, row_elems, w)
                sample = "-"
                if row_elems == 256 and block_elems > 1 and kind in ([None, "mixed"] if takes == "both"
                    else IMPORTANCE):
                    sample = blocks[: SAMPLE_ELEMS // block_elems * block_bytes // (1 if data == "nasty" else 8)]
                    sample = sample.tobytes().hex()
                add(
                    f"encode {data} {kind or 'none'} {row_elems} {n_rows} {sha256(blocks.tobytes())} "
                    f"{decoded_sha256(reference.decode(blocks))} {sample}",
                    blocks,
                )
    for row_elems in [256 if 256 % block_elems == 0 else block_elems]:
        n_rows = CASE_ELEMS // row_elems
        blocks = bytes_(row_elems * 16 + 7, n_rows * row_elems // block_elems * block_bytes)
        x = reference.decode(blocks)
        add(f"decode - - {row_elems} {n_rows} {sha256(blocks.tobytes())} {decoded_sha256(x)} -", blocks)
    head = f"# scripts/golden/quant.py, {REFERENCE}\n# task data weights row_elems n_rows sha256(bytes) sha256(decoded) sample\n"
    (out / f"{name}.txt").write_text(head + "\n".join(lines) + "\n")


def make(ctx):
    raw = ctx.inputs.get("raw")
    failed = []
    for name in filter(ctx.wants, TYPES):
        process = Process(target=make_type, args=(ctx.libraries, ctx.golden / "quant", name, raw and int(raw)))
        process.start()
        process.join()
        print(f"{name}: {'made' if process.exitcode == 0 else f'FAILED ({process.exitcode})'}", flush=True)
        failed += [name] if process.exitcode else []
    if failed:
        raise SystemExit(f"failed: {failed}")
