"""Checkpoints of golden/arch without their weights: what is kept of them, and how they are made whole again.

A folder of golden/arch holds config.json, expected.json, what other small files the checkpoint has, and
checkpoint.json:

  tokenizer  name of a folder of golden/arch-tokenizers, whose files are the checkpoint's too; a file of the
             checkpoint's own with the same name takes precedence
  tokenizer_folder  the folder of the checkpoint that they are in, with a slash after it, if there is one
  seed       of the weights
  files      {name of a safetensors file: {"sha256": of the whole file, "tensors": {name: "VALUES SHAPE DTYPE"}}}

VALUES is a key of that table, or =NAME for a copy of a tensor before it in the file; SHAPE is rows first, with x
between, or - for one number without dimensions; no DTYPE is BF16. crates/testkit/src/checkpoint.rs
makes the same files, and compares the digest. A folder without checkpoint.json has its
weights (`whole` in its recipe): that of the README's first command, and those with goldens by the reference's programs.
"""

import json
import re
import shutil
import struct
from pathlib import Path

import numpy as np

from data import F, U, bell, mix
from digests import sha256

# What is not part of the checkpoint that the reference sees.
OWN_FILES = ("checkpoint.json", "expected.json")
# What `-exp` is applied to. Each is a bf16 number whose exponential is within 0.01 of the last place of an f32 number,
# so that every exponential function in use rounds to it; torch's differs between processors in about 1 % of all
# numbers.
LOGARITHMS = np.array([-1.3671875, -1.0859375, -0.98046875, -0.6875, -0.65625, -0.40234375, -0.150390625,
    -0.10595703125,
                       0.03125, 0.10009765625, 0.1748046875, 0.244140625, 0.330078125, 0.369140625, 0.8203125,
                           1.6171875], F)
# Standard deviation 0.05: `bell` has 53509. `wide` has 0.2.
SCALE = F(9.25e-7)
VALUES = {
    "normal": lambda seed, i: bell(seed, i) * SCALE,
    "wide": lambda seed, i: bell(seed, i) * F(3.7e-6),
    "near-one": lambda seed, i: bell(seed, i) * SCALE + F(1),
    "logarithms": lambda seed, i: LOGARITHMS[(mix(seed, i) % U(16)).astype(np.int64)],
    "index": lambda seed, i: i.astype(F),
    # Multiples of 1/64 in bf16, so that sums of many are exact in f32 in every order.
    "grid": lambda seed, i: ((mix(seed, i) % U(65)).astype(F) - F(32)) / F(64),
    "bytes": lambda seed, i: (mix(seed, i) >> U(56)).astype(np.uint8),
    "exponents": lambda seed, i: (U(120) + mix(seed, i) % U(10)).astype(np.uint8),
    # Bytes of e4m3: without sign, and with; never the two that are no numbers.
    "ue4m3": lambda seed, i: (mix(seed, i) % U(127)).astype(np.uint8),
    "f8": lambda seed, i: (mix(seed, i) % U(127) | mix(seed, i) >> U(56) & U(128)).astype(np.uint8),
    # Bytes of e5m2 with sign; never infinity, nor one that is no number.
    "e5m2": lambda seed, i: (mix(seed, i) % U(124) | mix(seed, i) >> U(56) & U(128)).astype(np.uint8),
    # Scales of whole tensors, that multiply and that divide.
    "positive": lambda seed, i: (U(1) + mix(seed, i) % U(1000)).astype(F) * F(1e-5),
    "divisor": lambda seed, i: (U(100) + mix(seed, i) % U(9000)).astype(F),
    "one": lambda seed, i: np.ones(len(i), F),
    # Words of codes; scales from 2^-10 to 2^-8.
    "words": lambda seed, i: (mix(seed, i) >> U(32)).astype(np.uint32),
    "scales": lambda seed, i: (U(0x1400) + mix(seed, i) % U(0x800)).astype(np.uint16),
}
# Kinds with a number after a colon, KIND:NUMBER. "until": values like "normal" before this element, then zeros. "fields": words with
# fields of this number of bits that are never all ones. "in-order", "in-no-order": groups of this number of inputs. "numbers": the
# numbers themselves.
VALUES_OF = {
    "until": lambda end, seed, i: np.where(i < U(int(end)), bell(seed, i) * SCALE, F(0)),
    "fields": lambda bits, seed, i: sum((mix(seed, i * U(32 // int(bits)) + U(k)) % U(2**int(bits) - 1) << U(k * int(bits))
                                         for k in range(32 // int(bits))), U(0)).astype(np.uint32),
    "in-order": lambda size, seed, i: (i // U(int(size))).astype(np.uint32),
    "in-no-order": lambda size, seed, i: (i * U(37) % U(len(i)) // U(int(size))).astype(np.uint32),
    # Multiples of a number in order, and numbers below one.
    "steps": lambda number, seed, i: (i * U(int(number))).astype(np.int64),
    "below": lambda number, seed, i: (mix(seed, i) % U(int(number))).astype(np.int64),
    "numbers": lambda numbers, seed, i: np.array([int(n) for n in numbers.split("x")], np.int64),
}
NORM = re.compile(r"(norm|Norm|(^|[._])(pre_|emb_)?ln(_?\w*)?)[^.]*\.(weight|gamma)$|norm[^.]*(\.\d+)?\.weight$")


def fnv1a(text: str) -> int:
    """The 64-bit FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def tensor_bytes(seed: int, name: str, dtype: str, shape: list, values: str) -> bytes:
    seed = int(mix(seed, np.array([fnv1a(name)], U))[0])
    kind, _, argument = values.partition(":")
    make = VALUES[values] if not argument else lambda seed, i: VALUES_OF[kind](argument, seed, i)
    numbers = make(seed, np.arange(int(np.prod(shape)), dtype=U))
    if dtype == "BF16":
        bits = numbers.view(np.uint32)
        numbers = ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype("<u2")
    if dtype == "F16" and numbers.dtype == np.float32:
        numbers = numbers.astype("<f2").view(np.uint16)
    assert numbers.dtype == dict(BF16=np.uint16, F32=np.float32, U8=np.uint8, I8=np.uint8, F16=np.uint16, I32=np.uint32, I64=np.int64, F8_E4M3=np.uint8,
        F8_E5M2=np.uint8, F8_E8M0=np.uint8)[dtype], (name, dtype)
    return numbers.tobytes()


def file_bytes(seed: int, tensors: dict) -> bytes:
    """A safetensors file: length of the header, header, padded with spaces to a multiple of 8, tensors in their
    order."""
    header, bodies, at = {"__metadata__": {"format": "pt"}}, {}, 0
    for name, text in tensors.items():
        values, shape, dtype = (text.split(" ") + ["BF16"])[:3]
        shape = [int(n) for n in shape.split("x") if n != "-"]
        bodies[name] = bodies[values[1:]] if values.startswith("=") else tensor_bytes(seed, name, dtype, shape,
            values)
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[at, at + len(bodies[name])])
        at += len(bodies[name])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(bodies.values())


def values_of(name: str, dtype: str) -> str:
    """What kind of values a tensor of this name has."""
    if dtype == "U8":
        return "exponents" if name.endswith("_scales") else "bytes"
    if dtype == "I64":
        return "steps:1"
    if name.endswith("A_log"):
        return "logarithms"
    # Of whole numbers torch's softplus is the rounded one; of others it depends on the processor.
    if dtype == "F32" and name.endswith("inv_freq") or name.endswith("per_dim_scale"):
        return "index"
    # Variances are positive.
    return "near-one" if NORM.search(name) or name.endswith("running_var") else "normal"


def described(path: Path, kinds: dict | None = None) -> dict:
    """The tensors of a safetensors file as checkpoint.json lists them; equal ones as copies. `kinds` are the values of
    those that do not go by their names."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    tensors, seen = {}, {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        body = data[8 + n + entry["data_offsets"][0]:8 + n + entry["data_offsets"][1]]
        # Of tensors that are constant it is chance that they are equal.
        is_constant = len(set(body[i:i + 2] for i in range(0, len(body), 2))) == 1
        first = name if is_constant else seen.setdefault(body, name)
        values = (kinds or {}).get(name) or values_of(name, entry["dtype"]) if first == name else f"={first}"
        shape, dtype = "x".join(map(str, entry["shape"])) or "-", entry["dtype"]
        tensors[name] = f"{values} {shape}" if dtype == "BF16" else f"{values} {shape} {dtype}"
    return tensors


def seed_weights(folder: Path, seed: int, kinds: dict | None = None) -> dict:
    """Replaces all weights of a checkpoint by seeded ones; what checkpoint.json says of its files."""
    files = {}
    for path in sorted(folder.glob("**/*.safetensors")):
        tensors = described(path, kinds)
        data = file_bytes(seed, tensors)
        path.write_bytes(data)
        files[path.relative_to(folder).as_posix()] = dict(sha256=sha256(data), tensors=tensors)
    return files


def is_tokenizer_file(name: str) -> bool:
    return name.startswith(("tokenizer", "spiece", "sentencepiece", "rwkv_vocab"))


def store(folder: Path, seed: int, files: dict, tokenizer: str, has_own_config: bool, golden: Path,
          parent: str = "arch", inner: str = "") -> None:
    """Writes golden/PARENT/NAME of a whole checkpoint, and its tokenizer where it is the first to have that.

    `has_own_config` says that its tokenizer_config.json is not the usual one of this tokenizer, `inner` is its folder."""
    out, shared, files_of = golden / parent / folder.name, golden / "arch-tokenizers" / tokenizer, folder / inner
    shared.mkdir(parents=True, exist_ok=True)
    for path in files_of.iterdir():
        is_usual = is_tokenizer_file(path.name) and not (path.name == "tokenizer_config.json" and has_own_config)
        if is_usual and not (shared / path.name).exists():
            shutil.copy(path, shared)
    kept = out / "expected.json"
    expected = kept.read_text() if kept.exists() else None
    shutil.rmtree(out, ignore_errors=True)
    is_shared = lambda path: (shared / path.name).exists() and (shared / path.name).read_bytes() == path.read_bytes()
    ignore = lambda parent, names: [name for name in names if name.endswith(".safetensors") or Path(parent) == folder and
        name in OWN_FILES or Path(parent) == files_of and (files_of / name).is_file() and is_shared(files_of / name)]
    shutil.copytree(folder, out, ignore=ignore)
    for path in files_of.iterdir():
        assert not is_tokenizer_file(path.name) or path.name == "tokenizer_config.json" or is_shared(path), (path,
            tokenizer)
    lines = ["{", f'  "tokenizer": {json.dumps(tokenizer)},', *([f'  "tokenizer_folder": "{inner}/",'] if inner else []),
        f'  "seed": {seed},', '  "files": {']
    for name, file in files.items():
        tensors = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key,
            value in file["tensors"].items())
        comma = "" if name == list(files)[-1] else ","
        lines += [f'    {json.dumps(name)}: {{', f'    "sha256": "{file["sha256"]}",', '    "tensors": {', tensors, "    }}" + comma]
    lines += ["  }", "}"]
    (out / "checkpoint.json").write_text("\n".join(lines) + "\n")
    if expected is not None:
        kept.write_text(expected)


def whole(name: str, golden: Path, parent: Path) -> Path:
    """The checkpoint of golden/arch/NAME, whole, in a folder of its name inside `parent`."""
    own, folder = golden / "arch" / name, parent / name
    if folder.exists():
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    if not (own / "checkpoint.json").exists():
        shutil.copytree(own, folder)
        return folder
    description = json.loads((own / "checkpoint.json").read_text())
    shutil.copytree(golden / "arch-tokenizers" / description["tokenizer"], folder / description.get("tokenizer_folder", ""))
    shutil.copytree(own, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*OWN_FILES))
    for file, of in description["files"].items():
        data = file_bytes(description["seed"], of["tensors"])
        assert sha256(data) == of["sha256"], (name, file)
        (folder / file).write_bytes(data)
    return folder
