"""Makes golden/ggml: LLaMA files from before GGUF, and what is in them.

ggjt3-f16.bin is written by hand; ggjt3-q*.bin are what llm-rs makes of it. The others are packed here from codes and
scales, by the table of block layouts (`ggml.c` of llama.cpp of March to May 2023), and their values are computed from the
codes, not from the bytes. Those whose name ends in `-fits` have scales that f16 holds.

expected.json: for each file the keys that convert_llama_ggml_to_gguf.py writes (of files that it takes: it refuses old
blocks, and its tensors have wrong shapes), and for each tensor its GGUF name, shape, type as it is stored, the digest of
its values in f32, and the type of today with the digest of the blocks where that holds the same. Values of ggjt 3 are
decoded by gguf-py's quants.

Needs numpy, gguf-py of the reference, llm-rs 0.2.15 with blake3 and huggingface_hub.
"""

import struct
import subprocess
import sys
from dataclasses import dataclass

import gguf
import numpy as np

from lib import sha256, write_json

MAGICS = {"ggml": b"lmgg", "ggmf": b"fmgg", "ggjt": b"tjgg"}
IDS = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q4_2": 4, "q4_3": 5, "q5_0": 6, "q5_1": 7, "q8_0": 8}
# Bits of a code, elements of a block, whether there is a minimum.
KINDS = {"q4_0": (4, 32, False), "q4_1": (4, 32, True), "q4_2": (4, 16, False), "q4_3": (4, 16, True),
    "q5_0": (5, 32, False), "q5_1": (5, 32, True), "q8_0": (8, 32, False)}
# Types whose scales are f32 in versions 0 and 1 of the blocks.
WIDE = {"q4_0", "q4_1", "q8_0"}
OURS = {"tok_embeddings": "token_embd", "norm": "output_norm", "output": "output", "attention.wq": "attn_q",
    "attention.wk": "attn_k", "attention.wv": "attn_v", "attention.wo": "attn_output", "attention_norm": "attn_norm",
    "feed_forward.w1": "ffn_gate", "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up", "ffn_norm": "ffn_norm"}


@dataclass
class Sizes:
    vocab: int = 24
    embd: int = 32
    head: int = 4
    kv: int = 32
    ff: int = 64
    layer: int = 1


@dataclass
class Packed:
    """A matrix (n_out, n_in) as codes: those of the elements, and for each block a scale and a minimum."""
    kind: str
    codes: np.ndarray
    d: np.ndarray
    m: np.ndarray

    def values(self):
        bits, n, has_min = KINDS[self.kind]
        blocks = self.codes.reshape(-1, n)
        offset = 0 if has_min or bits == 8 else 1 << (bits - 1)
        products = (blocks - offset).astype(np.float32) * self.d[:, None]
        return (products + self.m[:, None] if has_min else products).reshape(self.codes.shape)

    def bytes(self, version):
        """In the layout of version 0, 1 or 2 of the blocks."""
        bits, n, has_min = KINDS[self.kind]
        wide = self.kind in WIDE and version < 2
        number = np.float32 if wide else np.float16
        out = bytearray()
        for codes, d, m in zip(self.codes.reshape(-1, n), self.d, self.m):
            out += number(d).tobytes() + (number(m).tobytes() if has_min else b"")
            if bits == 8:
                out += codes.astype(np.int8).tobytes()
                continue
            if bits == 5:
                out += struct.pack("<I", sum(int(code >> 4) << i for i, code in enumerate(codes)))
            low = codes & 15
            low, high = (low[0::2], low[1::2]) if version == 0 else (low[: n // 2], low[n // 2 :])
            out += (low | high << 4).astype(np.uint8).tobytes()
        return bytes(out)


def packed(numbers, kind, shape, fits):
    bits, n, _ = KINDS[kind]
    low, high = (-128, 128) if bits == 8 else (0, 1 << bits)
    codes = numbers.integers(low, high, shape)
    # Every code comes up, and so do blocks of one value.
    codes.reshape(-1, n)[0] = codes.reshape(-1, n)[0, 0]
    codes.reshape(-1, n)[1] = np.resize(np.arange(low, high), n)
    d, m = (numbers.standard_normal((2, codes.size // n)) * 0.02).astype(np.float32)
    # No scale at all, an f16 subnormal, a power of two, a negative one.
    d[:4] = [0, 2.0**-20, 0.25, -0.015625]
    m[:3] = [-0.0, -(2.0**-24), 0.5]
    if fits or kind not in WIDE:
        d, m = d.astype(np.float16).astype(np.float32), m.astype(np.float16).astype(np.float32)
    return Packed(kind, codes, d, m)


def vocabulary(n):
    texts = [b" \xe2\x81\x87 ", b"", b"", b"\x00", b"\n", b" ", b"A", b"\xc3", b" the", b"t", b"", b"a b c", b"\xff\xfe"]
    texts += [f"piece{i}".encode() for i in range(n - len(texts))]
    return [(text, float(np.float32(-0.5 * i))) for i, text in enumerate(texts[:n])]


def matrices(sizes):
    """Names of Meta and shapes, (n_out, n_in)."""
    s = sizes
    yield "tok_embeddings", (s.vocab, s.embd)
    yield "norm", (s.embd,)
    yield "output", (s.vocab, s.embd)
    for layer in range(s.layer):
        for name, shape in [("attention.wq", (s.embd, s.embd)), ("attention.wk", (s.kv, s.embd)),
                ("attention.wv", (s.kv, s.embd)), ("attention.wo", (s.embd, s.embd)), ("attention_norm", (s.embd,)),
                ("feed_forward.w1", (s.ff, s.embd)), ("feed_forward.w2", (s.embd, s.ff)),
                ("feed_forward.w3", (s.ff, s.embd)), ("ffn_norm", (s.embd,))]:
            yield f"layers.{layer}.{name}", shape


def write(path, container, version, sizes, file_type, tensors):
    """tensors: (name, dims with the row length first, type id, bytes)."""
    out = bytearray(MAGICS[container])
    if container != "ggml":
        out += struct.pack("<I", version)
    head = (sizes.vocab, sizes.embd, 256, sizes.head, sizes.layer, sizes.embd // sizes.head, file_type)
    out += struct.pack("<7I", *head)
    for text, score in vocabulary(sizes.vocab):
        out += struct.pack("<I", len(text)) + text
        out += b"" if container == "ggml" else struct.pack("<f", score)
    for name, dims, type_id, data in tensors:
        name = f"{name}.weight".encode()
        out += struct.pack("<3I", len(dims), len(name), type_id) + struct.pack(f"<{len(dims)}I", *dims) + name
        if container == "ggjt":
            out += bytes(-len(out) % 32)
        out += data
    path.write_bytes(out)


def parse(path, sizes):
    """The tensors of a ggjt file."""
    data, at = path.read_bytes(), 8 + 28
    for _ in range(sizes.vocab):
        at += 8 + struct.unpack_from("<I", data, at)[0]
    while at < len(data):
        n_dims, n_name, type_id = struct.unpack_from("<3I", data, at)
        dims = struct.unpack_from(f"<{n_dims}I", data, at + 12)
        at += 12 + 4 * n_dims
        name = data[at : at + n_name].decode()
        at = (at + n_name + 31) // 32 * 32
        block, n_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(type_id)]
        size = int(np.prod(dims)) // block * n_bytes
        yield name, dims, type_id, data[at : at + size]
        at += size


def our_name(name):
    if name.startswith("layers."):
        _, layer, rest = name.split(".", 2)
        return f"blk.{layer}.{OURS[rest]}.weight"
    return f"{OURS[name]}.weight"


def digest(data):
    """Half of a SHA-256: enough to tell arrays apart."""
    return sha256(data)[:32]


def entry(name, dims, stored, values, today, blocks):
    values = np.ascontiguousarray(values, dtype=np.float32)
    kept = {"today": today, "blocks": digest(blocks)} if today else {}
    return {"name": our_name(name), "shape": list(dims), "stored": stored, "f32": digest(values.tobytes())} | kept


def by_hand(path, numbers, container, version, kinds, file_type, sizes, fits=False, n_parts=1):
    """A file whose matrices are of `kinds` in turn."""
    parts, entries = [[] for _ in range(n_parts)], []
    block_version = version - 1 if container == "ggjt" else 0
    for index, (name, shape) in enumerate(matrices(sizes)):
        kind = kinds[index % len(kinds)] if len(shape) == 2 else "f32"
        dims = tuple(reversed(shape))
        if kind in ("f32", "f16"):
            number = np.float32 if kind == "f32" else np.float16
            values = (numbers.standard_normal(shape) * 0.1 + (len(shape) == 1)).astype(number)
            data = values.tobytes()
            entries.append(entry(name, dims, kind, values.astype(np.float32), kind, data))
            pieces = [data] * n_parts
            axis = 1 if name.split(".")[-1] in ("tok_embeddings", "wo", "w2") else 0
            if len(shape) == 2:
                pieces = [part.tobytes() for part in np.split(values, n_parts, axis)]
        else:
            matrix = packed(numbers, kind, shape, fits)
            changed = block_version == 0 or kind in WIDE
            holds = (fits or kind not in WIDE) and kind not in ("q4_2", "q4_3")
            entries.append(entry(name, dims, kind, matrix.values(), kind if holds else None, matrix.bytes(2)))
            assert changed or matrix.bytes(block_version) == matrix.bytes(2)
            n = KINDS[kind][1]
            axis = 1 if name.split(".")[-1] in ("tok_embeddings", "wo", "w2") else 0
            grid = [array.reshape(shape[0], -1) for array in (matrix.d, matrix.m)]
            split = [np.split(array, n_parts, axis) for array in (matrix.codes, *grid)]
            pieces = [Packed(kind, codes, d.ravel(), m.ravel()).bytes(block_version) for codes, d, m in zip(*split)]
            assert matrix.codes.shape[1] // n_parts % n == 0 or n_parts == 1
        if len(shape) == 2 and n_parts > 1:
            axis = 1 if name.split(".")[-1] in ("tok_embeddings", "wo", "w2") else 0
            dims = (dims[0] // n_parts, dims[1]) if axis else (dims[0], dims[1] // n_parts)
        for part, data in zip(parts, pieces):
            part.append((name, dims, IDS[kind], data))
    for index, part in enumerate(parts):
        to = path if index == 0 else path.with_name(f"{path.name}.{index}")
        write(to, container, version, sizes, file_type, part)
    return entries


def keys(ctx, path, *options):
    """What the reference's converter writes beside tensors."""
    out = ctx.scratch / "keys.gguf"
    script = ctx.reference / "convert_llama_ggml_to_gguf.py"
    subprocess.run([sys.executable, script, "-i", path, "-o", out, *options], check=True, capture_output=True)
    reader, found = gguf.GGUFReader(out), []
    for field in reader.fields.values():
        if field.name.startswith("GGUF."):
            continue
        kind = field.types[0].name
        if kind != "ARRAY":
            value = field.contents()
            found.append([field.name, kind.lower(), value])
            continue
        item = field.types[-1].name
        # As texts in hex: tokens need not be UTF-8.
        texts = [bytes(field.parts[i]).hex() for i in field.data] if item == "STRING" else field.contents()
        found.append([field.name, f"array[{item.lower()}]", texts])
    return found


def make(ctx):
    from llm_rs import ContainerType, Llama, QuantizationType
    out = ctx.golden / "ggml"
    out.mkdir(exist_ok=True)
    numbers, sizes = np.random.default_rng(16), Sizes()
    grouped = Sizes(kv=16)
    expected = {}

    def done(name, entries, told=None):
        expected[name] = {"tensors": entries} | ({"keys": told} if told else {})

    # llm-rs takes rows of multiples of 64 only.
    source, wide = out / "ggjt3-f16.bin", Sizes(vocab=16, embd=64, kv=32)
    done(source.name, by_hand(source, numbers, "ggjt", 3, ["f16"], 1, wide), keys(ctx, source, "--gqa", "2"))
    for kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        path = out / f"ggjt3-{kind.lower()}.bin"
        Llama.quantize(str(source), str(path), getattr(QuantizationType, kind), ContainerType.GGJT, lambda _: None)
        entries = []
        for name, dims, type_id, data in parse(path, wide):
            kind_id = gguf.GGMLQuantizationType(type_id)
            stored, today = kind_id.name.lower(), kind_id.name.lower()
            values = gguf.quants.dequantize(np.frombuffer(data, dtype=np.uint8), kind_id)
            entries.append(entry(name.removesuffix(".weight"), dims, stored, values, today, data))
        done(path.name, entries)
    for name, told in [("ggml", []), ("ggmf", ["--eps", "1e-6", "--context-length", "4096", "--name", "Old"])]:
        path = out / f"{name}-f16.bin"
        done(path.name, by_hand(path, numbers, name, 1, ["f16"], 1, Sizes(kv=16, ff=32)), keys(ctx, path, "--gqa", "2", *told))
    every = ["q4_0", "q4_1", "q4_2", "q4_3", "q5_0", "q5_1", "q8_0"]
    known = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"]
    for name, container, version, kinds, file_type, of, more in [
        ("ggml-q4_0", "ggml", 1, ["q4_0"], 2, sizes, {}),
        ("ggml-parts", "ggml", 1, ["q4_1", "q4_0", "f16"], 3, wide, {"n_parts": 2}),
        ("ggmf-q4_1-fits", "ggmf", 1, ["q4_1"], 3, sizes, {"fits": True}),
        ("ggjt1-all", "ggjt", 1, every, 2, grouped, {}),
        ("ggjt1-fits", "ggjt", 1, every, 8, grouped, {"fits": True}),
        ("ggjt2-all", "ggjt", 2, known, 2002, grouped, {}),
        ("ggjt2-fits", "ggjt", 2, known, 2, grouped, {"fits": True}),
        ("ggjt3-all", "ggjt", 3, [*known, "f16"], 2002, grouped, {"fits": True}),
    ]:
        path = out / f"{name}.bin"
        done(path.name, by_hand(path, numbers, container, version, kinds, file_type, of, **more))
    write_json(out / "expected.json", expected, indent=None, separators=(",", ":"))
