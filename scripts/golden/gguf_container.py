"""Makes golden/gguf: files written by gguf-py and gguf.cpp, shards by llama-gguf-split, name tables.

Needs numpy.
"""

import ctypes
import random
import re
import subprocess

import gguf
import numpy as np
from gguf.utility import model_weight_count_rounded_notation, size_label

rng = random.Random(7)

# The specification's expression, in Python's spelling of named groups.
PATTERN = re.compile(
    r"^(?P<BaseName>[A-Za-z0-9\s]*(?:(?:-(?:(?:[A-Za-z\s][A-Za-z0-9\s]*)|(?:[0-9\s]*)))*))-(?:(?P<SizeLabel>(?:\d+x)?"
    r"(?:\d+\.)?\d+[A-Za-z](?:-[A-Za-z]+(\d+\.)?\d+[A-Za-z]+)?)(?:-(?P<FineTune>[A-Za-z0-9\s-]+))?)?-(?:(?P<Version>"
    r"v\d+(?:\.\d+)*))(?:-(?P<Encoding>(?!LoRA|vocab)[\w_]+))?(?:-(?P<Type>LoRA|vocab))?(?:-(?P<Shard>\d{5}-of-\d{5}))?"
    r"\.gguf\Z"
)
GROUPS = ("BaseName", "SizeLabel", "FineTune", "Version", "Encoding", "Type", "Shard")


def names(out):
    words = ["A", "Llama", "3", "8B", "8x7B", "1.5B", "v1", "v1.0", "v0.1", "Q4_0", "LoRA", "vocab", "F16", "instruct"]
    words += ["chat", "2 b", "00001-of-00002", "K2", "ContextLength4k", "3.8B", "_", "x", "7b", "v", "", "BF16",
        "loRA"]
    words += ["LoRAx", "vocal", "Lo"]
    rows = {}
    while len(rows) < 400:
        name = "-".join(rng.choice(words) for _ in range(rng.randrange(2, 8))) + ".gguf"
        match = PATTERN.match(name)
        if match or rng.random() < 0.05:
            rows[name] = "none" if match is None else "\t".join(match.group(group) or "" for group in GROUPS)
    (out / "names.tsv").write_text("".join(f"{name}\t{row}\n" for name, row in sorted(rows.items())))


def size_labels(out):
    counts = [0, 1, 4, 5, 49, 50, 94, 95, 99, 100, 444, 499, 500, 501, 949, 950, 951, 999, 1000, 1499, 1500, 2500,
        9499]
    counts += [9500, 10500, 99500, 999499, 999500, 10**6, 10**6 + 1, 1049999, 1050000, 1150000, 1250000, 1350000]
    counts += [2450000, 9449999, 9500000, 9950000, 10500000, 11500000, 99500000, 134515008, 999499999, 999500000,
        10**9]
    counts += [10**9 + 1, 1050000000, 1250000000, 1100048384, 2450000000, 8030261248, 46702792704, 10**12, 10**12 + 1]
    counts += [1250000000000, 9949999999999, 2**62] + [rng.randrange(10 ** rng.randrange(3, 15)) for _ in range(200)]
    rows = [f"{count}\t{model_weight_count_rounded_notation(count)}" for count in counts]
    quads = [(134515008, 134515008, 0, 0), (-5000000, 5000000, 0, 0), (46702792704, 1605000000, 5636000000, 8)]
    quads += [(100, 100, -1500000, 16), (0, 0, 0, 0)]
    rows += [f"{','.join(map(str, quad))}\t{size_label(*quad)}" for quad in quads]
    (out / "size_labels.tsv").write_text("\n".join(rows) + "\n")


def write(path, endian, nested, alignment=None):
    writer = gguf.GGUFWriter(path, "test", endianess=endian)
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_uint8("value.u8", 200)
    writer.add_int8("value.i8", -100)
    writer.add_uint16("value.u16", 60000)
    writer.add_int16("value.i16", -30000)
    writer.add_uint32("value.u32", 4000000000)
    writer.add_int32("value.i32", -2000000000)
    writer.add_float32("value.f32", 0.1)
    writer.add_bool("value.true", True)
    writer.add_bool("value.false", False)
    writer.add_string("value.str", "tea \u8336")
    writer.add_uint64("value.u64", 2**64 - 1)
    writer.add_int64("value.i64", -(2**63))
    writer.add_float64("value.f64", -1e-300)
    writer.add_array("array.i32", [1, -2, 3])
    writer.add_array("array.f32", [0.5, -0.25])
    writer.add_array("array.bool", [True, False, True])
    writer.add_array("array.str", ["a", "", "\u00e9"])
    writer.add_array("array.u8", b"\x00\xff\x7f")
    writer.add_key_value("array.u64", [1, 2**63], gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT64)
    if nested:
        writer.add_array("array.array", [[1, 2, 3], ["x", "yy"], [[True], [1.5, 2.5, 3.5]]])
    numbers = np.random.default_rng(1)
    writer.add_tensor("vector", numbers.standard_normal(5).astype(np.float32))
    writer.add_tensor("matrix.weight", numbers.standard_normal((3, 7)).astype(np.float16))
    writer.add_tensor("row", numbers.standard_normal((1, 9)).astype(np.float64))
    writer.add_tensor("ids", np.arange(11, dtype=np.int32).reshape(11, 1, 1))
    if endian == gguf.GGUFEndian.LITTLE:
        blocks = numbers.integers(0, 256, (2, 34), dtype=np.uint8)
        writer.add_tensor("blocks", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("last", np.arange(3, dtype=np.int8))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class InitParams(ctypes.Structure):
    _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.POINTER(ctypes.c_void_p))]


def rewrite(libraries, source, target):
    """Loads with gguf.cpp and writes the same again."""
    lib = ctypes.CDLL(str(libraries / "libggml-base.so"))
    pointer = ctypes.c_void_p
    lib.gguf_init_from_file.restype = pointer
    lib.gguf_init_from_file.argtypes = [ctypes.c_char_p, InitParams]
    lib.gguf_get_n_tensors.restype = ctypes.c_int64
    lib.gguf_get_n_tensors.argtypes = [pointer]
    lib.gguf_get_tensor_name.restype = ctypes.c_char_p
    lib.gguf_get_tensor_name.argtypes = [pointer, ctypes.c_int64]
    lib.ggml_get_tensor.restype = pointer
    lib.ggml_get_tensor.argtypes = [pointer, ctypes.c_char_p]
    lib.gguf_init_empty.restype = pointer
    lib.gguf_set_kv.argtypes = [pointer, pointer]
    lib.gguf_add_tensor.argtypes = [pointer, pointer]
    lib.gguf_write_to_file.restype = ctypes.c_bool
    lib.gguf_write_to_file.argtypes = [pointer, ctypes.c_char_p, ctypes.c_bool]
    tensors = pointer()
    file = lib.gguf_init_from_file(str(source).encode(), InitParams(False, ctypes.pointer(tensors)))
    assert file, source
    copy = lib.gguf_init_empty()
    lib.gguf_set_kv(copy, file)
    for i in range(lib.gguf_get_n_tensors(file)):
        lib.gguf_add_tensor(copy, lib.ggml_get_tensor(tensors, lib.gguf_get_tensor_name(file, i)))
    assert lib.gguf_write_to_file(copy, str(target).encode(), False)


def make(ctx):
    out = ctx.golden / "gguf"
    names(out)
    size_labels(out)
    write(out / "py-little.gguf", gguf.GGUFEndian.LITTLE, nested=True)
    write(out / "py-big.gguf", gguf.GGUFEndian.BIG, nested=True, alignment=128)
    # gguf.cpp copies general.alignment but aligns by its own default, so the file for it states none.
    write(out / "py-flat.gguf", gguf.GGUFEndian.LITTLE, nested=False)
    rewrite(ctx.libraries, out / "py-flat.gguf", out / "cpp-flat.gguf")
    split = [ctx.program("llama-gguf-split"), "--split", "--split-max-tensors", "3"]
    subprocess.run([*split, out / "py-flat.gguf", out / "split"], check=True, stdout=subprocess.DEVNULL)
