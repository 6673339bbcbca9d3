"""Calls that check, compare, edit and split files."""

import hashlib
import json
import subprocess
import sys

import gguf_tools as gt
import numpy as np
import pytest


@pytest.fixture
def model(bf16, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(bf16.read_bytes())
    return path


def changed(report) -> dict:
    return {change["key"]: change["new"] and change["new"]["value"] for change in report["changes"]}


def test_metadata_is_set_renamed_and_removed(model):
    before = model.read_bytes()
    values = {
        "general.name": "Mine",
        "llama.context_length": 77,
        "own.int": 1,
        "own.float": 0.5,
        "own.flag": True,
        "own.texts": ["a", "b"],
        "own.array": np.arange(3),
        "own.typed": {"type": "u16", "value": 7},
        "own.bytes": b"\xff",
        "own.infinite": float("-inf"),
    }
    options = dict(unset="general.size*", rename={"general.type": "own.type"}, chat_template="{{ messages }}")
    planned = gt.edit_metadata(model, values, dry_run=True, **options)
    assert not planned["written"] and model.read_bytes() == before
    report = gt.edit_metadata(model, values, **options)
    assert report["written"] and report["changes"] == planned["changes"]
    assert report["file_bytes"] == model.stat().st_size
    file = gt.open(model)
    assert file.metadata["general.name"] == "Mine" and file.metadata["llama.context_length"] == 77
    assert file.metadata["own.texts"] == ["a", "b"] and file.metadata["own.array"] == [0, 1, 2]
    assert file.metadata["own.bytes"] == b"\xff" and file.metadata["own.infinite"] == float("-inf")
    assert file.metadata["own.type"] == "model" and "general.type" not in file.metadata
    assert file.metadata["tokenizer.chat_template"] == "{{ messages }}"
    types = {change["key"]: change["new"]["type"] for change in report["changes"] if change["new"]}
    assert types["llama.context_length"] == "u32" and types["own.typed"] == "u16"
    assert (types["own.int"], types["own.float"], types["own.flag"]) == ("i32", "f32", "bool")
    assert file["output.weight"].raw.tobytes() == gt.open(model)["output.weight"].raw.tobytes()
    with pytest.raises(gt.GgufError, match="unknown key `none`"):
        gt.edit_metadata(model, unset=["none"])
    with pytest.raises(gt.GgufError, match="not a valid u32"):
        gt.edit_metadata(model, {"llama.context_length": "x"})


def test_exported_metadata_is_applied_again(model):
    exported = gt.export_metadata(model, prefix="general.")
    assert list(exported) and all(key.startswith("general.") for key in exported)
    assert exported["general.architecture"] == {"type": "str", "value": "llama"}
    gt.edit_metadata(model, {"general.name": "other"})
    gt.edit_metadata(model, gt.export_metadata(model))
    assert gt.edit_metadata(model, exported)["changes"][0]["key"] == "general.name"
    assert gt.export_metadata(model, prefix=["general."]) == exported
    with pytest.raises(gt.GgufError, match="no metadata key"):
        gt.export_metadata(model, prefix="none.")


def test_header_with_slack_is_changed_in_place(model):
    assert not gt.edit_metadata(model, header_slack=1000)["in_place"]
    report = gt.edit_metadata(model, {"general.name": "a longer name than before"})
    assert report["in_place"] and report["slack"] < 1000


def test_questionable_values_warn(model):
    with pytest.warns(UserWarning, match="pre-tokenizer `unheard-of`"):
        gt.edit_metadata(model, {"tokenizer.ggml.pre": "unheard-of"}, dry_run=True)


def test_split_and_merge_restore_the_file(model, tmp_path):
    seen = []
    files = gt.split(model, tmp_path / "part", max_size="500K", progress=lambda *now: seen.append(now))
    assert len(files) > 1 and seen and seen[-1][0] <= seen[-1][1]
    assert gt.split(model, tmp_path / "part", max_size=500_000, dry_run=True) == files
    merged = gt.merge(files[0]["file"], tmp_path / "merged.gguf")
    assert merged["file_bytes"] == model.stat().st_size
    original = gt.open(model)
    assert gt.diff(model, merged["file"])["equal"]
    assert gt.hash(merged["file"], tensors=True)[f"{merged['file']}:*"] == gt.hash(model, tensors=True)[f"{model}:*"]
    with pytest.raises(gt.GgufError, match="already exists"):
        gt.merge([file["file"] for file in files], tmp_path / "merged.gguf")
    with pytest.raises(ValueError):
        gt.split(model, tmp_path / "x", max_size="many")
    assert len(original) == merged["tensors"]


def test_byte_orders_hold_the_same_numbers(model, tmp_path):
    (big,) = gt.change_endian(model, tmp_path / "big.gguf", "big")
    assert gt.diff(model, big["file"])["equal"]
    assert (gt.open(big["file"])["output_norm.weight"].numpy() == gt.open(model)["output_norm.weight"].numpy()).all()
    (back,) = gt.change_endian(big["file"], tmp_path / "back.gguf", "little")
    assert (tmp_path / "back.gguf").read_bytes() == model.read_bytes() and back["tensors"] == big["tensors"]
    with pytest.raises(ValueError, match="middle"):
        gt.change_endian(model, tmp_path / "x.gguf", "middle")


def test_verify_and_diff_find_changes(model, bf16, checkpoint):
    assert gt.verify(model)["good"]
    report = gt.verify(model, against=checkpoint, only="source")
    assert report.good and [check.name for check in report.checks] and json.loads(json.dumps(report)) == report
    with pytest.raises(AttributeError, match="no 'bad'; it has"):
        report.bad
    assert gt.diff(bf16, model).equal
    gt.edit_metadata(model, unset=["llama.block_count"], overwrite=True)
    report = gt.verify(model, only=["architecture"])
    assert not report.good and report.errors > 0
    found = gt.diff(bf16, model, headers=True)
    assert [change.key for change in found["keys"]] == ["llama.block_count"] and not found.tensors


def test_digests_are_those_of_sha256(model):
    assert gt.hash(model) == {str(model): hashlib.sha256(model.read_bytes()).hexdigest()}
    assert len(gt.hash([model], tensors=True)) == len(gt.open(model)) + 2


def test_tensors_are_extracted(model, tmp_path):
    out = tmp_path / "norm.npy"
    report = gt.extract(model, "output_norm.weight", out)
    assert (np.load(out) == gt.open(model)["output_norm.weight"].numpy()).all()
    assert report["tensors"] == [{"name": "output_norm.weight", "stored": "f32", "dtype": "f32", "shape": [256]}]
    with pytest.raises(gt.GgufError, match="unknown tensor `none`"):
        gt.extract(model, ["none"], tmp_path / "x.npy")


def test_memory_is_estimated(model):
    report = gt.fit(model, memory="1GiB", context=[64, 128])
    assert report["memory"] == 1 << 30 and report["best"]["file"] == model.name
    totals = [use["total"] for use in report["files"][0]["uses"]]
    assert len(totals) == 2 and totals[0] < totals[1]
    assert gt.fit(model, memory=1000)["best"] is None


def test_reports_equal_those_of_the_command_line(model, tmp_path):
    def shell(*arguments):
        code = "import sys; from gguf_tools._commands import inspect; sys.exit(inspect())"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert shell("verify", model, "--json") == gt.verify(model)
    assert shell("fit", model, "--memory", "8GB", "--json") == gt.fit(model, memory="8GB")
    assert shell("show", model, "--json")["summary"] == gt.summary(model)
    assert gt.summary(model, html=tmp_path / "page.html") == gt.summary(model)
    assert "blk.0.attn_q.weight" in (tmp_path / "page.html").read_text()
    with pytest.raises(gt.GgufError):
        gt.summary(model, html=tmp_path / "page.html")
    assert shell("hash", model, "--tensors", "--json") == gt.hash(model, tensors=True)
    assert shell("split", model, tmp_path / "x", "--split-max-tensors", 3, "--dry-run", "--json")["files"] == gt.split(
        model, tmp_path / "x", max_tensors=3, dry_run=True
    )
