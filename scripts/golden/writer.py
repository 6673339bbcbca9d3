"""Makes golden/writer: files of made-up tensors and metadata, written by gguf-py's GGUFWriter.

plain.gguf has a key of every type, a tensor of every type of numbers and blocks of bf16 and q8_0; aligned.gguf an alignment of
64; big.gguf is in big-endian order; metadata.gguf has no tensors and ends with its last key; limited-* are shards of at most
two tensors, sized-* of at most 600 bytes after a first one without tensors. Needs numpy and gguf-py of the reference.
"""

import numpy as np

RAMP = np.arange(96, dtype=np.float32).reshape(3, 32) / 8 - 3


def keys(writer) -> None:
    writer.add_name("own")
    writer.add_block_count(2)
    writer.add_uint8("own.u8", 200)
    writer.add_int8("own.i8", -100)
    writer.add_uint16("own.u16", 60000)
    writer.add_int16("own.i16", -30000)
    writer.add_uint32("own.u32", 4000000000)
    writer.add_int32("own.i32", -2000000000)
    writer.add_float32("own.f32", 0.1)
    writer.add_uint64("own.u64", 2**63)
    writer.add_int64("own.i64", -(2**62))
    writer.add_float64("own.f64", 0.1)
    writer.add_bool("own.bool", True)
    writer.add_array("own.texts", ["a", "ß", ""])
    writer.add_array("own.ints", [1, -2, 3])
    writer.add_array("own.floats", [0.5, -1.5])
    writer.add_array("own.bools", [True, False])
    writer.add_array("own.bytes", bytes([1, 2, 255]))
    writer.add_array("own.nested", [[1, 2], [3]])


def numbers(writer) -> None:
    writer.add_tensor("ramp.f32", RAMP)
    writer.add_tensor("ramp.f16", RAMP.astype(np.float16))
    writer.add_tensor("ramp.f64", RAMP.astype(np.float64))
    for width in (8, 16, 32, 64):
        writer.add_tensor(f"ramp.i{width}", RAMP.astype(f"int{width}"))
    writer.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    writer.add_tensor("vector", np.arange(5, dtype=np.float32))


def written(writer) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(ctx) -> None:
    import gguf
    from gguf import GGMLQuantizationType as Type
    from gguf.quants import quantize

    folder = ctx.golden / "writer"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.gguf"):
        old.unlink()

    writer = gguf.GGUFWriter(folder / "plain.gguf", "llama")
    keys(writer)
    numbers(writer)
    for kind in (Type.BF16, Type.Q8_0):
        writer.add_tensor(f"ramp.{kind.name.lower()}", quantize(RAMP, kind), raw_dtype=kind)
    written(writer)

    writer = gguf.GGUFWriter(folder / "aligned.gguf", "llama")
    writer.add_custom_alignment(64)
    writer.add_name("aligned")
    writer.add_tensor("vector", np.arange(5, dtype=np.float32))
    writer.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    written(writer)

    writer = gguf.GGUFWriter(folder / "big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    keys(writer)
    numbers(writer)
    written(writer)

    writer = gguf.GGUFWriter(folder / "metadata.gguf", "llama")
    keys(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()

    writer = gguf.GGUFWriter(folder / "limited.gguf", "llama", split_max_tensors=2)
    writer.add_name("limited")
    numbers(writer)
    written(writer)

    writer = gguf.GGUFWriter(folder / "sized.gguf", "llama", split_max_size=600, small_first_shard=True)
    writer.add_name("sized")
    numbers(writer)
    written(writer)
