"""Reading of files: views and copies, and errors of invalid files."""

import pickle

import gguf_tools as gt
import numpy as np
import pytest


def test_arrays_are_views_of_the_file(bf16, checkpoint, tmp_path):
    (path,) = gt.convert(checkpoint, tmp_path / "f32.gguf", file_type="f32")
    tensor = gt.open(path)["blk.0.attn_q.weight"]
    array = tensor.numpy()
    assert array.dtype == np.float32 and array.shape == tensor.shape == (256, 256)
    assert not array.flags.owndata and not array.flags.writeable
    # A row that ARCHITECTURE.md follows.
    assert array[1, 0] == np.float32(0.08642578)
    with open(path, "rb") as file:
        file.seek(tensor.offset)
        assert array.tobytes() == file.read(tensor.nbytes)
    # Types that NumPy does not have are bytes.
    raw = gt.open(bf16)["blk.0.attn_q.weight"].numpy()
    assert raw.dtype == np.uint8 and raw.shape == (256, 512) and not raw.flags.owndata
    # The view outlives its file.
    assert (np.asarray(tensor) == array).all()


def test_file_is_a_mapping(bf16):
    file = gt.open(bf16)
    assert len(file) == len(list(file)) == len(file.tensors)
    assert "output_norm.weight" in file and "none" not in file
    assert file.metadata["general.architecture"] == "llama"
    assert file.metadata.get("none") is None
    with pytest.raises(KeyError):
        file.metadata["none"]
    with pytest.raises(KeyError):
        file["none"]
    assert dict(file.metadata)["tokenizer.ggml.tokens"][1] == "<s>"
    assert "llama" in repr(file) and "bf16" in repr(file["output.weight"])


def test_errors_have_fields(bf16, checkpoint, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGML" + bytes(20))
    with pytest.raises(gt.GgufError) as caught:
        gt.open(broken)
    error = caught.value
    assert error.file == str(broken) and error.found == "GGML" and error.tensor is None
    # The fields reach other processes.
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.found) == (str(error), error.file, error.found)

    cut = tmp_path / "cut.gguf"
    cut.write_bytes(bf16.read_bytes()[:-1000])
    with pytest.raises(gt.GgufError) as caught:
        gt.open(cut)
    error = caught.value
    assert error.tensor and int(error.expected) > int(error.found) and error.hint in str(error)

    with pytest.raises(gt.GgufError) as caught:
        gt.convert(checkpoint, tmp_path / "x.gguf", file_type="q9_9")
    assert caught.value.found == "q9_9"
    with pytest.raises(gt.GgufError) as caught:
        gt.convert(checkpoint, tmp_path / "x.gguf", file_type="iq2_xxs")
    assert caught.value.tensor and caught.value.expected == "an importance matrix"
    with pytest.raises(gt.GgufError) as caught:
        gt.convert(tmp_path / "none", tmp_path / "x.gguf", file_type="f16")
    assert caught.value.file
    with pytest.raises(gt.GgufError):
        gt.encode(np.zeros((2, 31)), "q8_0")
    with pytest.raises(gt.GgufError) as caught:
        gt.encode(np.zeros((2, 32)), "q8_9")
    assert caught.value.found == "q8_9"
    with pytest.raises(ValueError):
        gt.decode(np.zeros((2, 34)), "q8_0")
