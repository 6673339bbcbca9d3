"""Keywords of conversions: adapters, recipes, metadata, shards, the Hub, warnings, progress, hints."""

import json
import logging
import struct
import sys
import types
import warnings

import gguf_tools as gt
import numpy as np
import pytest
from gguf_tools import _progress
from gguf_tools._errors import in_keywords


def write_safetensors(path, tensors):
    """Writes arrays of float32 by name."""
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in tensors.values()))


@pytest.fixture
def adapter(checkpoint, tmp_path):
    """A LoRA adapter of one matrix."""
    config = json.loads((checkpoint / "config.json").read_text())
    folder = tmp_path / "adapter"
    folder.mkdir()
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["up_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    rng = np.random.default_rng(7)
    start = "base_model.model.model.layers.0.mlp.up_proj."
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    tensors = {
        f"{start}lora_A.weight": rng.normal(0, 0.1, (2, hidden)).astype(np.float32),
        f"{start}lora_B.weight": rng.normal(0, 0.1, (inner, 2)).astype(np.float32),
    }
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    return folder, tensors[f"{start}lora_B.weight"] @ tensors[f"{start}lora_A.weight"]


def test_adapter_is_merged_with_its_scale(adapter, checkpoint, tmp_path):
    folder, change = adapter
    name = "blk.0.ffn_up.weight"

    def up(**keywords):
        (path,) = gt.convert(checkpoint, tmp_path / "x.gguf", file_type="f32", overwrite=True, **keywords)
        return gt.open(path)[name].numpy().copy()

    plain = up()
    # lora_alpha / r is 2.
    np.testing.assert_allclose(up(lora=folder) - plain, 2 * change, atol=1e-5)
    np.testing.assert_allclose(up(lora=[(folder, 0.5)]) - plain, change, atol=1e-5)
    np.testing.assert_allclose(up(lora={folder: 0.25}) - plain, change / 2, atol=1e-5)
    (path,) = gt.convert_adapter(folder, tmp_path / "adapter.gguf", base=checkpoint)
    assert set(gt.open(path)) == {f"{name}.lora_a", f"{name}.lora_b"}


def test_adapter_file_is_applied_merged_and_verified(adapter, checkpoint, tmp_path):
    folder, change = adapter
    (base,) = gt.convert(checkpoint, tmp_path / "base.gguf", file_type="f32")
    (lora,) = gt.convert_adapter(folder, tmp_path / "adapter.gguf", base=checkpoint)
    (merged,) = gt.quantize(base, tmp_path / "merged.gguf", file_type="f32", lora=[(lora, 0.5)])
    name = "blk.0.ffn_up.weight"
    np.testing.assert_allclose(gt.open(merged)[name].numpy() - gt.open(base)[name].numpy(), change, atol=1e-5)
    assert gt.verify(merged, against=base, lora={lora: 0.5})["good"]
    assert gt.verify(merged, against=checkpoint, lora={folder: 0.5})["good"]
    assert not gt.verify(merged, against=base, lora=lora)["good"]
    ids = [1, 5, 9]
    applied, expected = gt.Model(base, lora={lora: 0.5}).logits(ids), gt.Model(merged).logits(ids)
    np.testing.assert_allclose(applied, expected, atol=1e-4)
    assert np.abs(gt.Model(base).logits(ids) - expected).max() > 1e-3
    text = "The quick brown fox jumps over the lazy dog. " * 20
    values = [gt.perplexity(base, text, context=32, lora=lora).value for lora in ({lora: 0.5}, {lora: 0.25, str(lora): 0.25})]
    assert values[0] == pytest.approx(values[1], rel=1e-4)
    assert values[0] == pytest.approx(gt.perplexity(merged, text, context=32).value, rel=1e-4)


def test_tensor_types_metadata_and_shards_are_set(checkpoint, bf16, tmp_path):
    paths = gt.convert(
        checkpoint,
        tmp_path / "x.gguf",
        outtype="q8_0",
        tensor_types={"ffn_down": "q6_k"},
        output_tensor_type="f16",
        metadata={"general.name": "Tuned", "own.count": {"type": "u8", "value": 3}, "own.flag": True},
        split_max_tensors=5,
    )
    files = [gt.open(path) for path in paths]
    found = {name: tensor.type for file in files for name, tensor in file.items()}
    assert found["blk.0.ffn_down.weight"] == "q6_k" and found["blk.1.ffn_up.weight"] == "q8_0"
    assert found["output.weight"] == "f16"
    # Any shard opens the whole model.
    assert len(paths) == -(-len(files[0]) // 5) > 1
    metadata = files[0].metadata
    assert (metadata["general.name"], metadata["own.count"], metadata["own.flag"]) == ("Tuned", 3, True)
    (pruned,) = gt.quantize(bf16, tmp_path / "p.gguf", file_type="q8_0", prune_layers=[1])
    assert not any(name.startswith("blk.1.") for name in gt.open(pruned))
    with pytest.raises(TypeError, match="same argument"):
        gt.quantize(bf16, tmp_path / "y.gguf", file_type="q8_0", outtype="q8_0")
    with pytest.raises(TypeError, match="no_such"):
        gt.plan(bf16, file_type="q8_0", no_such=1)
    with pytest.raises(ValueError, match="none"):
        gt.quantize(bf16, tmp_path / "y.gguf", file_type="q8_0", missing_imatrix="none")


def test_recipe_of_a_file_is_applied(bf16, tmp_path):
    (first,) = gt.quantize(bf16, tmp_path / "a.gguf", file_type="q4_k_m", tensor_types=["ffn_up=q3_k"])
    recipe = gt.recipe(first, tmp_path / "recipe.json")
    assert json.loads((tmp_path / "recipe.json").read_text()) == recipe
    with pytest.raises(gt.GgufError) as caught:
        gt.recipe(first, tmp_path / "recipe.json")
    assert "overwrite=True" in caught.value.hint
    types = {name: tensor.type for name, tensor in gt.open(first).items()}
    for given in (recipe, tmp_path / "recipe.json"):
        (second,) = gt.quantize(bf16, tmp_path / "b.gguf", recipe=given, overwrite=True)
        assert {name: tensor.type for name, tensor in gt.open(second).items()} == types


def test_vocabulary_and_export(checkpoint, bf16, tmp_path):
    path = gt.convert_vocab(checkpoint, tmp_path / "vocab.gguf", file_type="f16")
    assert len(gt.open(path)) == 0 and gt.open(path).metadata["tokenizer.ggml.tokens"]
    folder = gt.export(bf16, tmp_path / "folder")
    (again,) = gt.convert(folder, tmp_path / "again.gguf", file_type="bf16")
    before, after = gt.open(bf16), gt.open(again)
    assert set(before) == set(after)
    assert all((before[name].raw == after[name].raw).all() for name in before)


def test_calibration_chooses_types_for_a_size(bf16, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 400)
    stages = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gt.GgufWarning)
        (path,) = gt.quantize(
            bf16, tmp_path / "c.gguf", file_type="q4_k_m", calibrate=text, calibration_tokens=2048,
            target_bpw=5, no_verify=True, progress=lambda done, total: stages.append((done, total)),
        )
    (plain,) = gt.quantize(bf16, tmp_path / "p.gguf", file_type="q4_k_m")
    assert path.read_bytes() != plain.read_bytes()
    # Chunks are counted before bytes, so that a later stage starts again.
    assert len({total for _, total in stages}) > 1
    assert all(done <= total for done, total in stages)


def test_repository_is_published(checkpoint, tmp_path):
    folder = gt.publish(
        checkpoint, tmp_path / "repo", file_type=["q8_0", "q4_0"], chunks=2, context=64, quantized_by="me", no_imatrix=True
    )
    card = (folder / "README.md").read_text()
    assert len(list(folder.glob("*.gguf"))) == 2 and "gguf-publish" in card and "--type q4_0,q8_0" in card
    gt.publish(checkpoint, folder, remove="q4_0", model_name="Tiny", repo="me/tiny")
    (name,) = (path.name for path in folder.glob("*.gguf"))
    assert name.startswith("Tiny") and name.endswith("Q8_0.gguf")
    assert "llama-cli -hf me/tiny:Q8_0" in (folder / "README.md").read_text()


def test_hub_cache_and_revision_are_used(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    with pytest.raises(gt.GgufError):
        gt.plan("owner/model", file_type="q8_0")
    # The layout of huggingface_hub's cache.
    commit = "0123456789abcdef0123456789abcdef01234567"
    model = tmp_path / "cache" / "models--owner--model"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "v2").write_text(commit)
    (model / "snapshots").mkdir()
    (model / "snapshots" / commit).symlink_to(checkpoint.resolve(), target_is_directory=True)
    with pytest.raises(gt.GgufError):
        gt.plan("owner/model", file_type="q8_0", cache_dir=tmp_path / "cache")
    for source, revision in (("owner/model", "v2"), ("hf://owner/model@v2", None)):
        (path,) = gt.convert(
            source, tmp_path / "x.gguf", file_type="q8_0", revision=revision, cache_dir=tmp_path / "cache", overwrite=True
        )
        assert path.stat().st_size > 0


def test_environment_and_arguments_set_the_hub(monkeypatch):
    from gguf_tools._calls import hub

    monkeypatch.setenv("HF_TOKEN", "of-environment")
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    assert (hub()["token"], hub()["endpoint"]) == ("of-environment", "https://mirror.example")
    given = hub(token="mine", endpoint="https://other.example", revision="v1")
    assert (given["token"], given["endpoint"], given["revision"]) == ("mine", "https://other.example", "v1")
    assert hub(token=False)["token"] is None and hub(token=False)["token_file"] is None


def test_messages_are_warnings_and_log_records(bf16, tmp_path, caplog):
    with pytest.warns(gt.GgufWarning, match="importance") as caught:
        gt.plan(bf16, file_type="iq2_xxs")
    assert caught[0].filename == __file__
    with caplog.at_level(logging.INFO, logger="gguf_tools"):
        gt.quantize(bf16, tmp_path / "q.gguf", file_type="q8_0")
    assert any("q.gguf" in record.getMessage() for record in caplog.records)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(gt.GgufWarning):
            gt.plan(bf16, file_type="iq2_xxs")


class Bars(list):
    """Stands for the class of tqdm and keeps the bars."""

    def __call__(self, total, **_):
        bar = types.SimpleNamespace(total=total, n=0, is_open=True)
        bar.update = lambda count: setattr(bar, "n", bar.n + count)
        bar.close = lambda: setattr(bar, "is_open", False)
        self.append(bar)
        return bar


def test_bar_is_shown_on_a_terminal_only(bf16, tmp_path, monkeypatch):
    bars = Bars()
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=bars))
    gt.quantize(bf16, tmp_path / "a.gguf", file_type="q8_0")
    assert bars == []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    gt.quantize(bf16, tmp_path / "b.gguf", file_type="q8_0", progress=False)
    assert bars == []
    gt.quantize(bf16, tmp_path / "c.gguf", file_type="q8_0")
    (bar,) = bars
    assert bar.n == bar.total > 0 and not bar.is_open
    # Without tqdm there is no bar.
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert _progress._bar() is None


def test_bar_starts_again_for_each_stage():
    bars = Bars()
    report = _progress._Bar(bars)
    for done, total in ((1, 4), (4, 4), (2, 9), (9, 9)):
        report(done, total)
    report.close()
    assert [(bar.n, bar.total, bar.is_open) for bar in bars] == [(4, 4, False), (9, 9, False)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            ["use ", ("force", None), " to overwrite it, or ", ("resume", None), " to continue"],
            "use `overwrite=True` to overwrite it, or `resume=True` to continue",
        ),
        (
            ["compute one with `", ["gguf-eval", "imatrix"], "` and pass it with ", ("imatrix", None)],
            "compute one with `imatrix()` and pass it with `imatrix=`",
        ),
        (
            ["accept it with `", ["gguf-quantize", ("allow-requantize", None)], "`"],
            "accept it with `quantize(allow_requantize=True)`",
        ),
        (["try `", ("arch-as", "llama"), "`; names match"], 'try `arch_as="llama"`; names match'),
        (["pass `", ("target-model-dir", "DIR"), "`"], "pass `target_model_dir=DIR`"),
        (
            ["use `", ["gguf-convert", "BASE", ("lora", "ADAPTER"), ("with-mmproj", None)], "`"],
            "use `convert(BASE, lora=ADAPTER, mmproj=True)`",
        ),
        (["set `", ("tensor-type", r"'blk\.3\.=q4_k'"), "`"], r"set `tensor_types='blk\.3\.=q4_k'`"),
        (
            ["run `", ["gguf-convert", "hf://OWNER/MODEL", ("type", "bf16")], "`"],
            'run `convert("hf://OWNER/MODEL", file_type="bf16")`',
        ),
        (["use `", ["gguf-convert", "adapter"], "` to convert it"], "use `convert_adapter()` to convert it"),
        (["omit the MTP layer with `", ("no-mtp", None), "`"], 'omit the MTP layer with `mtp="without"`'),
        (["run `", ["part", "PLAN", "K/N", ("force", None)], "` again"], "run `part PLAN K/N --force` again"),
        (["folder/a--b/--c.gguf: expected a file"], "folder/a--b/--c.gguf: expected a file"),
    ],
)
def test_hints_name_keywords(parts, expected):
    assert in_keywords(parts) == expected


def test_hint_of_an_error_names_keywords(bf16, tmp_path):
    (path,) = gt.quantize(bf16, tmp_path / "q.gguf", file_type="q4_k_m")
    with pytest.raises(gt.GgufError) as caught:
        gt.quantize(path, tmp_path / "r.gguf", file_type="q8_0")
    assert "allow_requantize=True" in caught.value.hint and "--" not in caught.value.hint
    with pytest.raises(gt.GgufError) as caught:
        gt.quantize(bf16, path, file_type="q8_0")
    assert "overwrite=True" in caught.value.hint
