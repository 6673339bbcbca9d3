"""Files and values compared with those of gguf-py."""

import gguf
import gguf_tools as gt
import numpy as np
import pytest
from gguf import quants

# Types that this package encodes and gguf-py decodes.
THEIRS = [
    type
    for type in gt.tensor_types().values()
    if type.encodable and hasattr(gguf.GGMLQuantizationType, type.name.upper())
    and (gguf.GGMLQuantizationType[type.name.upper()] in quants._type_traits or type.name in ("f32", "f16"))
]


def test_all_types_of_gguf_py_exist():
    known = {type.name.upper() for type in gt.tensor_types().values()}
    assert {type.name for type in gguf.GGMLQuantizationType} <= known
    assert len(THEIRS) >= 24


def values(n_rows: int, n: int) -> np.ndarray:
    """Ordinary numbers and difficult rows: zeros, one large value, one sign, tiny values."""
    array = np.random.default_rng(7).normal(0, 0.05, (n_rows, n)).astype(np.float32)
    array[1] = 0
    array[2, 5] = 30.0
    array[3] = np.abs(array[3])
    array[4] *= 1e-30
    return array


@pytest.mark.parametrize("type", THEIRS, ids=lambda type: type.name)
def test_decoded_values_are_bit_exact(type):
    rows = values(8, 512)
    blocks = gt.encode(rows, type.name, importance=np.linspace(0.5, 1.5, 512))
    assert blocks.shape == (8, 512 // type.block_elements * type.block_bytes)
    ours = gt.decode(blocks, type.name)
    theirs = quants.dequantize(blocks, gguf.GGMLQuantizationType[type.name.upper()])
    assert ours.tobytes() == theirs.astype(np.float32).tobytes()


@pytest.mark.parametrize("type", THEIRS, ids=lambda type: type.name)
def test_arbitrary_blocks_decode_alike(type):
    """Blocks that no encoder writes, with all bit patterns of scales that are finite."""
    if type.name in ("f32", "f16", "bf16"):
        pytest.skip("every pattern is a number, and quiet and signalling NaNs differ")
    rng = np.random.default_rng(11)
    blocks = rng.integers(0, 256, (64, 4 * type.block_bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):
        theirs = quants.dequantize(blocks, gguf.GGMLQuantizationType[type.name.upper()]).astype(np.float32)
    ours = gt.decode(blocks, type.name)
    finite = np.isfinite(theirs) & np.isfinite(ours)
    assert finite.mean() > 0.5
    assert (np.isfinite(theirs) == np.isfinite(ours)).all()
    assert ours[finite].tobytes() == theirs[finite].tobytes()


@pytest.mark.parametrize("type", ["f32", "f16", "bf16", "q8_0", "q4_k_m", "iq4_xs", "tq1_0", "q2_k"])
def test_gguf_py_reads_our_files(type, checkpoint, tmp_path):
    (path,) = gt.convert(checkpoint, tmp_path / "{ftype}.gguf", file_type=type)
    ours, theirs = gt.open(path), gguf.GGUFReader(path)
    assert list(ours) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        mine = ours[tensor.name]
        assert mine.type == tensor.tensor_type.name.lower()
        assert mine.raw.tobytes() == tensor.data.tobytes()
        decoded = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        assert mine.decode().tobytes() == decoded.tobytes()
        assert mine.shape == mine.decode().shape == tuple(reversed([int(dim) for dim in tensor.shape]))
    fields = {key: field for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert list(ours.metadata) == list(fields)
    for key, field in fields.items():
        assert ours.metadata[key] == field.contents(), key


@pytest.mark.parametrize("order", [gguf.GGUFEndian.LITTLE, gguf.GGUFEndian.BIG])
def test_files_of_gguf_py_are_read(order, tmp_path):
    path = tmp_path / "theirs.gguf"
    writer = gguf.GGUFWriter(path, "llama", endianess=order)
    writer.add_array("words", ["a", "ß", ""])
    writer.add_array("bytes", [1, 2, 255])
    writer.add_bool("yes", True)
    writer.add_float64("pi", 3.141592653589793)
    writer.add_int64("low", -(2**62))
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    writer.add_tensor("a", array.copy())
    writer.add_tensor("b", (array * 10).astype(np.int32))
    writer.add_tensor("c", array.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = gt.open(path)
    assert file.metadata["words"] == ["a", "ß", ""]
    assert file.metadata["bytes"] == [1, 2, 255]
    assert file.metadata["yes"] is True
    assert file.metadata["pi"] == 3.141592653589793
    assert file.metadata["low"] == -(2**62)
    assert (file["a"].numpy() == array).all() and (file["a"].decode() == array).all()
    assert (file["b"].numpy() == array * 10).all() and file["b"].decode().dtype == np.float32
    assert (file["c"].numpy() == array).all() and (file["c"].decode() == array).all()
