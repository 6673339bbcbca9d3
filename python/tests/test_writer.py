"""The writer compared with that of gguf-py: the same calls write the same bytes."""

import inspect

import gguf
import gguf_tools as gt
import numpy as np
import pytest
from gguf_tools._writer_keys import METHODS

# The release on PyPI may be older than the source tree whose calls the writer has.
IS_CURRENT = hasattr(gguf.GGUFWriter, "remove_key")
RAMP = np.arange(96, dtype=np.float32).reshape(3, 32) / 8 - 3


def both(tmp_path, calls, **options):
    """Runs the same calls with both writers and compares all files."""
    for package, folder in ((gguf, "theirs"), (gt, "ours")):
        (tmp_path / folder).mkdir()
        writer = package.GGUFWriter(tmp_path / folder / "a.gguf", "llama", **options)
        calls(writer)
        writer.close()
    theirs, ours = sorted((tmp_path / "theirs").iterdir()), sorted((tmp_path / "ours").iterdir())
    assert [path.name for path in ours] == [path.name for path in theirs]
    for a, b in zip(ours, theirs):
        assert a.read_bytes() == b.read_bytes(), a.name
    return ours


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()


def keys(writer):
    writer.add_name("own")
    writer.add_type("model")
    writer.add_block_count(2)
    writer.add_context_length(length=4096)
    writer.add_head_count(8)
    writer.add_head_count_kv([8, 4])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_base_model_name(0, "base")
    writer.add_tags(["a", "b"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_token_list([b"<s>", "</s>", "\u2581a"])
    writer.add_token_types([gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, gguf.TokenType.NORMAL])
    writer.add_token_scores([0.0, -1.0, -2.5])
    writer.add_chat_template([{"name": "default", "template": "x"}, {"name": "tool use", "template": "y"}])
    writer.add_uint8("own.u8", 200)
    writer.add_int8("own.i8", -100)
    writer.add_uint16("own.u16", 60000)
    writer.add_int16("own.i16", -30000)
    writer.add_uint32("own.u32", 4000000000)
    writer.add_int32("own.i32", -2000000000)
    writer.add_float32("own.f32", 0.1)
    writer.add_uint64("own.u64", 2**64 - 1)
    writer.add_int64("own.i64", -(2**63))
    writer.add_float64("own.f64", 0.1)
    writer.add_bool("own.bool", True)
    writer.add_array("own.nested", [[1, 2], [0.5]])
    writer.add_array("own.bytes", bytes([1, 255]))
    writer.add_array("own.empty", [])
    writer.add_string("own.none", "")
    kinds = gguf.GGUFValueType
    writer.add_key_value("own.list", [1, 2], kinds.ARRAY, kinds.UINT64)
    writer.add_key_value("own.value", 7, kinds.UINT16)
    if IS_CURRENT:
        writer.add_uint32("own.gone", 1)
        writer.remove_key("own.gone")


def numbers(writer):
    writer.add_tensor("f32", RAMP)
    writer.add_tensor("f16", RAMP.astype(np.float16))
    writer.add_tensor("f64", RAMP.astype(np.float64))
    for width in (8, 16, 32, 64):
        writer.add_tensor(f"i{width}", RAMP.astype(f"int{width}"))
    writer.add_tensor("turned", RAMP.T)
    writer.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    writer.add_tensor("reshaped", RAMP, raw_shape=(96,))


@pytest.mark.parametrize("order", [gguf.GGUFEndian.LITTLE, gguf.GGUFEndian.BIG], ids=["little", "big"])
def test_keys_and_numbers(order, tmp_path):
    both(tmp_path, lambda writer: (keys(writer), numbers(writer), finish(writer)), endianess=order)


def test_encoded_blocks(tmp_path):
    def calls(writer):
        for kind in (gguf.GGMLQuantizationType.BF16, gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0):
            writer.add_tensor(kind.name, gguf.quants.quantize(RAMP, kind), raw_dtype=kind)
        finish(writer)

    (path,) = both(tmp_path, calls)
    assert gt.open(path)["Q8_0"].shape == (3, 32)
    # Blocks that are encoded while the file is written are the same.
    with gt.GGUFWriter(tmp_path / "as.gguf", "llama") as writer:
        for kind in ("bf16", "q8_0", gguf.GGMLQuantizationType.Q4_0):
            writer.add_tensor_as(getattr(kind, "name", str(kind)).upper(), RAMP, kind)
        (planned,) = writer.plan()
        finish(writer)
    assert (tmp_path / "as.gguf").read_bytes() == path.read_bytes()
    assert planned["nbytes"] == path.stat().st_size
    assert planned["tensors"]["Q8_0"] == {"offset": gt.open(path)["Q8_0"].offset, "nbytes": 102}


def test_shards_and_alignment(tmp_path):
    for index, options in enumerate(
        [{"split_max_tensors": 3}, {"split_max_size": 700}, {"split_max_tensors": 2, "small_first_shard": True}]
    ):
        (tmp_path / str(index)).mkdir()
        assert len(both(tmp_path / str(index), lambda writer: (numbers(writer), finish(writer)), **options)) > 2
    (tmp_path / "aligned").mkdir()
    both(tmp_path / "aligned", lambda writer: (writer.add_custom_alignment(128), numbers(writer), finish(writer)))


def test_metadata_alone(tmp_path):
    def calls(writer):
        keys(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()

    both(tmp_path, calls)


def test_one_tensor_after_another(tmp_path):
    def calls(writer):
        writer.add_tensor_info("a", RAMP.shape, RAMP.dtype, RAMP.nbytes)
        blocks = gguf.quants.quantize(RAMP, gguf.GGMLQuantizationType.Q8_0)
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor_info("b", blocks.shape, blocks.dtype, blocks.nbytes, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.write_tensor_data(RAMP)
        writer.write_tensor_data(blocks)

    both(tmp_path, calls)


# Arguments of a call by the annotation of its parameter.
VALUES = {"int": 3, "float": 0.5, "bool": True, "str": "text", "bytes": b"text"}


def arguments(method):
    enums = {"ExpertGatingFuncType": "SIGMOID", "PoolingType": "CLS", "RopeScalingType": "LINEAR"}
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        kind = str(parameter.annotation)
        if kind in enums:
            yield getattr(getattr(gguf, kind, None) or getattr(gguf.constants, kind), enums[kind])
        elif "Sequence" in kind:
            items = [value for name, value in VALUES.items() if name in kind.split("Sequence", 1)[1]]
            yield [items[0] if items else 1] * 2
        else:
            yield VALUES[kind.split(" | ")[0]]


def test_all_methods_of_gguf_py_exist(tmp_path):
    """Sets every key of gguf-py in one file."""
    special = {"key_value", "tensor", "tensor_info", "shard_kv_data", "chat_template", "custom_alignment", "architecture"}
    names = [name[4:] for name in dir(gguf.GGUFWriter) if name.startswith("add_")]
    simple = {"uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64", "bool", "string", "array"}
    names = [name for name in names if name not in special | simple]
    ours = set(METHODS) | {"tensor_extra_prec_a4", "dense_features_dims"}
    assert set(names) == ours if IS_CURRENT else set(names) <= ours

    def calls(writer):
        for name in names:
            values = list(arguments(getattr(gguf.GGUFWriter, f"add_{name}")))
            getattr(writer, f"add_{name}")(*values)
        finish(writer)

    both(tmp_path, calls)


def test_invalid_calls_are_refused(tmp_path):
    path = tmp_path / "a.gguf"
    writer = gt.GGUFWriter(path, "llama")
    writer.add_tensor("a", RAMP)
    with pytest.raises(gt.GgufError) as caught:
        writer.add_tensor("a", RAMP)
    assert caught.value.tensor == "a"
    with pytest.raises(gt.GgufError) as caught:
        writer.add_tensor("b", RAMP, raw_shape=(4, 32))
    assert (caught.value.tensor, caught.value.expected, caught.value.found) == ("b", "512", "384")
    with pytest.raises(ValueError, match="complex64"):
        writer.add_tensor("b", RAMP.astype(np.complex64))
    with pytest.raises(gt.GgufError, match="32"):
        writer.add_tensor_as("b", RAMP[:, :31], "q8_0")
    with pytest.raises(ValueError, match="own.u8"):
        writer.add_uint8("own.u8", 256)
    with pytest.warns(UserWarning, match="duplicate metadata key `general.name`"):
        writer.add_name("a")
        writer.add_name("b")
    with pytest.raises(AttributeError):
        writer.add_nothing(1)
    with pytest.raises(TypeError, match="expected 2 arguments"):
        writer.add_base_model_name("x")
    with pytest.raises(ValueError):
        writer.write_kv_data_to_file()
    # Neither an exception nor an incomplete file leaves output.
    with pytest.raises(RuntimeError), gt.GGUFWriter(path, "llama") as writer:
        writer.add_tensor_info("a", RAMP.shape, RAMP.dtype, RAMP.nbytes)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        raise RuntimeError
    with pytest.raises(gt.GgufError, match="expected 384 bytes"):
        writer = gt.GGUFWriter(path, "llama")
        writer.add_tensor_info("a", RAMP.shape, RAMP.dtype, RAMP.nbytes)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.close()
    assert list(tmp_path.iterdir()) == []
