"""Makes golden/byte-orders and golden/cli/big-endian.txt: files of older versions and of the other byte order.

model*.gguf are one llama of one layer, written here by the specification (version 3, and what it says of 2 and 1) with
struct and numpy: no code of gguf-py. blocks*.gguf hold two rows of every type; what moves in a block is told by numpy
types that repeat the structs of ggml/src/ggml-common.h, with a number where a dequantize_row_* of ggml-quants.c reads
one in the machine's order and bytes where it reads bytes. listed*.gguf hold the types that
gguf-py/gguf/scripts/gguf_convert_endian.py knows, turned by it.

big-endian.txt: whole files of golden/arch/llama. A line is: who made it | type | bytes | sha256. `convert` is the
converter with --bigendian; `convert+endian` its little-endian file, turned by gguf_convert_endian.py, since with
--bigendian it leaves bf16 and q8_0 as they are in memory.

Needs numpy, gguf-py of the reference with tqdm, what the converter needs, and llama-quantize.
"""

import builtins
import struct
import subprocess
import sys
from types import SimpleNamespace

import numpy as np

from lib import sha256_of_file

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}

# id and block of every type: (elements, fields of a block); `h`, `H`, `I` are numbers, `B` and `b` bytes.
TYPES = {
    "f32": (0, 1, [("d", "f4")]), "f16": (1, 1, [("d", "f2")]), "bf16": (30, 1, [("d", "u2")]),
    "f64": (28, 1, [("d", "f8")]), "i8": (24, 1, [("d", "i1")]), "i16": (25, 1, [("d", "i2")]),
    "i32": (26, 1, [("d", "i4")]), "i64": (27, 1, [("d", "i8")]),
    "q4_0": (2, 32, [("d", "f2"), ("qs", "u1", 16)]),
    "q4_1": (3, 32, [("d", "f2"), ("m", "f2"), ("qs", "u1", 16)]),
    # qh is bytes in the struct and 32 bits in the code: `memcpy(&qh, x[i].qh, sizeof(qh))`.
    "q5_0": (6, 32, [("d", "f2"), ("qh", "u4"), ("qs", "u1", 16)]),
    "q5_1": (7, 32, [("d", "f2"), ("m", "f2"), ("qh", "u4"), ("qs", "u1", 16)]),
    "q8_0": (8, 32, [("d", "f2"), ("qs", "i1", 32)]),
    "q8_1": (9, 32, [("d", "f2"), ("s", "f2"), ("qs", "i1", 32)]),
    "q2_K": (10, 256, [("scales", "u1", 16), ("qs", "u1", 64), ("d", "f2"), ("dmin", "f2")]),
    "q3_K": (11, 256, [("hmask", "u1", 32), ("qs", "u1", 64), ("scales", "u1", 12), ("d", "f2")]),
    "q4_K": (12, 256, [("d", "f2"), ("dmin", "f2"), ("scales", "u1", 12), ("qs", "u1", 128)]),
    "q5_K": (13, 256, [("d", "f2"), ("dmin", "f2"), ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", 128)]),
    "q6_K": (14, 256, [("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "f2")]),
    "q8_K": (15, 256, [("d", "f4"), ("qs", "i1", 256), ("bsums", "i2", 16)]),
    # Of each 8 bytes the first 4 are looked at as bytes (aux8), the last as 32 bits (aux32[1]).
    "iq2_xxs": (16, 256, [("d", "f2"), ("qs", [("index", "u1", 4), ("signs", "u4")], 8)]),
    "iq2_xs": (17, 256, [("d", "f2"), ("qs", "u2", 32), ("scales", "u1", 8)]),
    "iq3_xxs": (18, 256, [("d", "f2"), ("qs", "u1", 64), ("signs", "u4", 8)]),
    "iq1_s": (19, 256, [("d", "f2"), ("qs", "u1", 32), ("qh", "u2", 8)]),
    "iq4_nl": (20, 32, [("d", "f2"), ("qs", "u1", 16)]),
    "iq3_s": (21, 256, [("d", "f2"), ("qs", "u1", 64), ("qh", "u1", 8), ("signs", "u1", 32), ("scales", "u1", 4)]),
    "iq2_s": (22, 256, [("d", "f2"), ("qs", "u1", 64), ("qh", "u1", 8), ("scales", "u1", 8)]),
    "iq4_xs": (23, 256, [("d", "f2"), ("scales_h", "u2"), ("scales_l", "u1", 4), ("qs", "u1", 128)]),
    # `const uint16_t * sc = (const uint16_t *)x[i].scales`.
    "iq1_m": (29, 256, [("qs", "u1", 32), ("qh", "u1", 16), ("scales", "u2", 4)]),
    "tq1_0": (34, 256, [("qs", "u1", 48), ("qh", "u1", 4), ("d", "f2")]),
    "tq2_0": (35, 256, [("qs", "u1", 64), ("d", "f2")]),
    "mxfp4": (39, 32, [("e", "u1"), ("qs", "u1", 16)]),
    "nvfp4": (40, 64, [("d", "u1", 4), ("qs", "u1", 32)]),
    "q1_0": (41, 128, [("d", "f2"), ("qs", "u1", 16)]),
    "q2_0": (42, 64, [("d", "f2"), ("qs", "u1", 16)]),
}
LISTED = ["f32", "f16", "bf16", "q1_0", "q4_0", "q8_0", "q4_K", "q6_K", "tq2_0", "mxfp4", "nvfp4"]


def block(name):
    return np.dtype(TYPES[name][2])


def write(path, metadata, tensors, version=3, big=False):
    """metadata: (key, type, value); arrays are (key, ARRAY, (type, items)). tensors: (name, type, dims, blocks)."""
    order = ">" if big else "<"
    # Version 1 has 32 bits where 2 and 3 have 64: counts, lengths, dimensions.
    wide = "I" if version == 1 else "Q"
    out = bytearray(b"GGUF")

    def put(code, *values):
        out.extend(struct.pack(order + code * len(values), *values))

    def text(value):
        value = value if isinstance(value, bytes) else value.encode()
        put(wide, len(value))
        out.extend(value)

    def value_of(kind, value):
        if kind == STRING:
            text(value)
        elif kind == ARRAY:
            item_kind, items = value
            put("I", item_kind)
            put(wide, len(items))
            for item in items:
                value_of(item_kind, item)
        else:
            put(CODES[kind], value)

    put("I", version)
    put(wide, len(tensors), len(metadata))
    for key, kind, value in metadata:
        text(key)
        put("I", kind)
        value_of(kind, value)
    offset, data = 0, bytearray()
    for name, kind, dims, blocks in tensors:
        text(name)
        put("I", len(dims))
        put(wide, *dims)
        put("I", TYPES[kind][0])
        put("Q", offset)
        data.extend(blocks.astype(block(kind).newbyteorder(order)).tobytes())
        data.extend(bytes(-len(data) % 32))
        offset = len(data)
    out.extend(bytes(-len(out) % 32))
    path.write_bytes(out + data)


def random_blocks(numbers, kind, n_elems, scale=None):
    """Blocks of random bytes; with a scale, f16 scales are about that, so that values are those of a model."""
    n_blocks = n_elems // TYPES[kind][1]
    raw = numbers.integers(0, 256, n_blocks * block(kind).itemsize, dtype=np.uint8)
    blocks = raw.view(block(kind)).copy()
    if scale is not None:
        for field in blocks.dtype.names:
            if blocks.dtype[field].base.kind == "f":
                blocks[field] = numbers.standard_normal(blocks[field].shape) * scale
        if kind == "bf16":
            values = (numbers.standard_normal(n_blocks) * scale).astype(np.float32)
            blocks["d"] = values.view(np.uint32) >> 16
    return blocks


def model():
    numbers = np.random.default_rng(14)
    pieces = ["\u2581", "\u2581t", "e", "t", "h", "a", "\u2581the", "in", "er", "n", "o", "r", "s", "i"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    tokens += [f"unused{i}" for i in range(288 - len(tokens))]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (288 - 259)]
    metadata = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "Byte \u8336"),
        ("llama.block_count", U32, 1),
        ("llama.context_length", U32, 64),
        ("llama.embedding_length", U32, 32),
        ("llama.feed_forward_length", U32, 64),
        ("llama.attention.head_count", U32, 4),
        ("llama.attention.head_count_kv", U32, 2),
        ("llama.rope.freq_base", F32, 10000.0),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("llama.vocab_size", U32, 288),
        ("llama.rope.dimension_count", U32, 8),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.pre", STRING, "default"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.scores", ARRAY, (F32, [float(np.float32(-i)) for i in range(288)])),
        ("tokenizer.ggml.token_type", ARRAY, (I32, kinds)),
        ("tokenizer.ggml.bos_token_id", U32, 1),
        ("tokenizer.ggml.eos_token_id", U32, 2),
        ("tokenizer.ggml.add_bos_token", BOOL, True),
        ("tokenizer.ggml.add_eos_token", BOOL, False),
        ("general.quantization_version", U32, 2),
        ("general.file_type", U32, 1),
    ]

    def tensor(name, kind, *dims):
        scale = {"q8_0": 0.001, "q4_1": 0.01, "q5_1": 0.01}.get(kind, 0.02 if TYPES[kind][1] > 1 else 0.2)
        return name, kind, dims, random_blocks(numbers, kind, int(np.prod(dims)), scale)

    # In the order of llama-quantize, so that a copy by it is the same file.
    return metadata, [
        tensor("output.weight", "q8_0", 32, 288), tensor("output_norm.weight", "f32", 32),
        tensor("token_embd.weight", "q4_0", 32, 288),
        tensor("blk.0.attn_k.weight", "bf16", 32, 16), tensor("blk.0.attn_norm.weight", "f32", 32),
        tensor("blk.0.attn_output.weight", "iq4_nl", 32, 32), tensor("blk.0.attn_q.weight", "f16", 32, 32),
        tensor("blk.0.attn_v.weight", "q4_1", 32, 16), tensor("blk.0.ffn_down.weight", "q5_0", 64, 32),
        tensor("blk.0.ffn_gate.weight", "q5_1", 32, 64), tensor("blk.0.ffn_norm.weight", "f32", 32),
        tensor("blk.0.ffn_up.weight", "f32", 32, 64),
    ]


def turn(path):
    """gguf_convert_endian.py, which turns a file where it lies and asks before."""
    import gguf
    import gguf.scripts.gguf_convert_endian as script
    asked, builtins.input = builtins.input, lambda _: "YES"
    reader = gguf.GGUFReader(path, "r+")
    script.convert_byteorder(reader, SimpleNamespace(order="big", dry_run=False))
    builtins.input = asked
    reader.data.flush()


def whole_files(ctx):
    folder = ctx.checkpoint("llama")
    lines = ["# golden/arch/llama: steps | type | bytes | sha256 of the whole file"]

    def convert(kind, *more):
        path = ctx.scratch / f"{kind}.gguf"
        command = [sys.executable, ctx.reference / "convert_hf_to_gguf.py", folder, "--outtype", kind, "--outfile", path]
        subprocess.run([*command, *more], check=True, capture_output=True)
        return path

    def done(steps, kind, path):
        lines.append(f"{steps} {kind} {path.stat().st_size} {sha256_of_file(path)}")

    for kind in ("f32", "f16"):
        done("convert", kind, convert(kind, "--bigendian"))
    bf16 = convert("bf16")
    for kind in ("q8_0", "q4_k_m"):
        path = ctx.scratch / f"{kind}.gguf"
        subprocess.run([ctx.program("llama-quantize"), bf16, path, kind, "1"], check=True, capture_output=True)
        turn(path)
        done("convert+quantize+endian", kind, path)
    turn(bf16)
    done("convert+endian", "bf16", bf16)
    (ctx.golden / "cli" / "big-endian.txt").write_text("\n".join(lines) + "\n")


def make(ctx):
    out = ctx.golden / "byte-orders"
    out.mkdir(exist_ok=True)
    metadata, tensors = model()
    for name, version, big in [("", 3, 0), ("-v1", 1, 0), ("-v2", 2, 0), ("-v2-big", 2, 1), ("-big", 3, 1)]:
        write(out / f"model{name}.gguf", metadata, tensors, version, big)
    numbers = np.random.default_rng(15)
    kinds = [(kind, kind, (256, 2), random_blocks(numbers, kind, 512)) for kind in TYPES]
    about = [("general.architecture", STRING, "test"), ("array.u64", ARRAY, (U64, [1, 2**63]))]
    write(out / "blocks.gguf", about, kinds)
    write(out / "blocks-big.gguf", about, kinds, big=True)
    write(out / "listed.gguf", about, [tensor for tensor in kinds if tensor[0] in LISTED])
    write(out / "listed-big.gguf", about, [tensor for tensor in kinds if tensor[0] in LISTED])
    turn(out / "listed-big.gguf")
    whole_files(ctx)
