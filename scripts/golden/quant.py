#!/usr/bin/env python3
"""Makes golden/quant/TYPE.txt: hashes of what the reference's block quantizers give for seeded data.

    quant.py FOLDER OUT [TYPE ...]         FOLDER holds the reference's libggml-base.so
    quant.py FOLDER OUT --raw LINE TYPE    also writes TYPE.LINE.bin: all bytes of that line (from 1)

Needs numpy. The library must be built without floating-point contraction (x86-64, no -march: check that
`objdump -d libggml-base.so | grep -c vfm` gives 0). Every function of the data has a twin of the same name in
crates/testkit/src/data.rs. Each type runs in a process of its own, because the reference aborts where it
finds data that it cannot quantize.
"""

import ctypes
import hashlib
import pathlib
import sys
from multiprocessing import Process

import numpy as np

F, U = np.float32, np.uint64
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


def mix(seed, index):
    with np.errstate(over="ignore"):
        z = np.full(1, seed, U) * U(0xD1342543DE82EF95) + (index + U(1)) * U(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
        return z ^ (z >> U(31))


def bytes_(seed, n):
    return (mix(seed, np.arange(n, dtype=U)) >> U(56)).astype(np.uint8)


def bell(seed, index):
    def lanes(z):
        m = U(0xFFFF)
        return (z & m) + (z >> U(16) & m) + (z >> U(32) & m) + (z >> U(48))

    total = lanes(mix(seed, U(2) * index)) + lanes(mix(seed, U(2) * index + U(1)))
    return (total.astype(np.int64) - 262140).astype(F)


def normal(seed, index):
    return bell(seed, index) * F(3.7e-7)


TIES = [(-16, 32), (0, 31), (-32, 64), (0, 63), (-254, 509), (-8, 16), (-64, 128), (-2, 5)]


def from_bits(bits):
    return bits.astype(np.uint32).view(F)


def power_of_two(exponent):
    return from_bits(np.atleast_1d(np.asarray(exponent, np.int64) + 127) << 23)


def signed(negative, magnitude):
    return np.where(negative, -magnitude, magnitude).astype(F)


def stretch_of(seed, i):
    stretch = i // U(256)
    return mix(seed + (1 << 32), i), mix(seed + (2 << 32), stretch), stretch, i % U(256)


def nasty(seed, i):
    r, s, stretch, j = stretch_of(seed, i)
    negative = r & U(1) == 1
    sign = (r & U(1)) << U(31)
    high = r >> U(40)
    value = normal(seed, i)
    amplitude = np.abs(normal(seed, stretch)) + F(0.001)
    zero = np.zeros(i.shape, F)

    def ties(kind):
        lowest, count = TIES[kind - 9]
        step = np.where(j % U(32) == s % U(32), U(0), high % U(count))
        step = np.where((j % U(32) == (s + U(1)) % U(32)) & (j % U(32) != s % U(32)), U(count - 1), step)
        return (step.astype(np.int64) + lowest).astype(F) * power_of_two(-1 - (s >> U(8) & U(7)).astype(np.int64))

    kinds = [
        zero,
        -zero,
        signed(negative, zero),
        np.where(j == s % U(256), value, zero),
        np.where(j % U(16) == s % U(16), value, zero),
        amplitude,
        -amplitude,
        from_bits(sign | high >> U(1)),
        from_bits(sign | high & U(7)),
        *[ties(kind) for kind in range(9, 17)],
        signed(j % U(2) == 1, amplitude),
        signed(j % U(2) == 1, np.abs(value)),
        from_bits(sign | (U(60) + high % U(100)) << U(23) | r >> U(1) & U(0x7FFFFF)),
        np.abs(value) + F(1),
        -(np.abs(value) + F(1)),
        value * power_of_two(-45),
        (high % U(3)).astype(F) * amplitude - amplitude,
        j.astype(F) * power_of_two(-6) - F(2),
        value * power_of_two(24),
        signed(negative, amplitude),
        (high % U(4)).astype(F),
    ]
    assert len(kinds) == 28
    return np.choose((stretch % U(28)).astype(np.int64), kinds).astype(F)


def extreme(seed, i):
    r, s, stretch, j = stretch_of(seed, i)
    negative = r & U(1) == 1
    sign = (r & U(1)) << U(31)
    high = r >> U(40)
    mantissa = r >> U(1) & U(0x7FFFFF)
    value = normal(seed, i)
    largest = np.full(i.shape, np.finfo(F).max, F)
    kinds = [
        signed(negative, largest),
        largest,
        from_bits(sign | (U(1) + high % U(254)) << U(23) | mantissa),
        from_bits(sign | (U(190) + high % U(64)) << U(23) | mantissa),
        np.where(j == s % U(256), largest, value),
        value * power_of_two(70),
        from_bits(sign | (U(0x7F7FFFFF) - (high & U(0xFFFF)))),
        from_bits(sign | (U(1) + high % U(20)) << U(23) | mantissa),
        value * power_of_two(-70),
    ]
    return np.choose((stretch % U(9)).astype(np.int64), kinds).astype(F)


def values(data, seed, n):
    i = np.arange(n, dtype=U)
    if data == "normal":
        return normal(seed, i)
    if data == "heavy":
        x = bell(seed, i) * F(3.7e-6)
        return x * x * x
    if data == "nasty":
        return nasty(seed, i)
    if data == "extreme":
        return extreme(seed, i)
    return from_bits(mix(seed, i) >> U(32))


def weights(kind, seed, n):
    i = np.arange(n, dtype=U)
    r = mix(seed, i)
    number = ((r >> U(40)) + U(1)).astype(F)
    x = number * power_of_two(-24)
    usual = x * x * F(3)
    if kind == "mixed":
        return np.where(r % U(16) == 0, F(0), np.where(r % U(16) == 1, number, usual)).astype(F)
    return np.where(mix(seed + (1 << 32), i // U(32)) % U(4) == 0, F(0), usual).astype(F)


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


def sha256(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


def decoded_sha256(x):
    bits = x.view(np.uint32).copy()
    bits[np.isnan(x)] = 0x7FC00000
    return sha256(bits)


def make(folder, out, name, raw):
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
                if row_elems == 256 and block_elems > 1 and kind in ([None, "mixed"] if takes == "both" else IMPORTANCE):
                    sample = blocks[: SAMPLE_ELEMS // block_elems * block_bytes // (1 if data == "nasty" else 8)]
                    sample = sample.tobytes().hex()
                add(
                    f"encode {data} {kind or 'none'} {row_elems} {n_rows} {sha256(blocks)} "
                    f"{decoded_sha256(reference.decode(blocks))} {sample}",
                    blocks,
                )
    for row_elems in [256 if 256 % block_elems == 0 else block_elems]:
        n_rows = CASE_ELEMS // row_elems
        blocks = bytes_(row_elems * 16 + 7, n_rows * row_elems // block_elems * block_bytes)
        x = reference.decode(blocks)
        add(f"decode - - {row_elems} {n_rows} {sha256(blocks)} {decoded_sha256(x)} -", blocks)
    head = f"# scripts/golden/quant.py, {REFERENCE}\n# task data weights row_elems n_rows sha256(bytes) sha256(decoded) sample\n"
    (out / f"{name}.txt").write_text(head + "\n".join(lines) + "\n")


def main():
    arguments = sys.argv[1:]
    raw = None
    if "--raw" in arguments:
        at = arguments.index("--raw")
        raw = int(arguments[at + 1])
        del arguments[at : at + 2]
    if len(arguments) < 2:
        sys.exit(__doc__)
    folder, out, names = arguments[0], pathlib.Path(arguments[1]), arguments[2:] or list(TYPES)
    out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        process = Process(target=make, args=(folder, out, name, raw))
        process.start()
        process.join()
        print(f"{name}: {'made' if process.exitcode == 0 else f'FAILED ({process.exitcode})'}", flush=True)
        if process.exitcode != 0:
            failed.append(name)
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
