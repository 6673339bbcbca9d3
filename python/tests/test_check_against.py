"""Comparison of files with models of transformers in memory."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import gguf_tools as gt
import pytest


@pytest.fixture(scope="module")
def original(checkpoint):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    return model, transformers.AutoTokenizer.from_pretrained(checkpoint)


def test_correct_file_is_the_same(original, bf16):
    model, tokenizer = original
    report = gt.check_against(model, bf16, tokenizer)
    assert report.is_same and report.parts == [], str(report)
    assert report.predictions["kl"] < 1e-6 and report.predictions["same_top"] == 1
    assert "no difference found" in str(report)


def test_unmerged_adapter_is_found(original, bf16):
    import copy

    import torch

    model, tokenizer = original
    tuned = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(1)
    for layer in tuned.model.layers:
        weight = layer.self_attn.q_proj.weight
        low = [torch.randn(n, 2, generator=generator) * 0.05 for n in weight.shape]
        weight.data += low[0] @ low[1].T
    report = gt.check_against(tuned, bf16, tokenizer)
    assert report.parts == ["weights"], str(report)
    assert "adapter" in report.responsible[0].advice[0]
    assert all("attn_q" in line for line in report.responsible[0].evidence if line.startswith("tensor"))


def test_other_template_is_found(original, bf16):
    import copy

    model, tokenizer = original
    other = copy.deepcopy(tokenizer)
    other.chat_template = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    report = gt.check_against(None, bf16, other)
    assert report.parts == ["template"], str(report)
    assert {finding.code for finding in report.findings if finding.severity == "error"} == {"prompt"}


def test_record_is_read_again(original, bf16, tmp_path):
    model, tokenizer = original
    path = gt.record(model, tokenizer, tmp_path / "record.json", texts=["Hello"], conversations=[], positions=4)
    facts = json.loads(path.read_text())
    assert [text["text"] for text in facts["texts"]] == ["Hello"]
    assert path.with_suffix(".f32").stat().st_size == 4 * facts["arrays"]["length"]
    report = gt.check_against(path, bf16)
    assert report.is_same, str(report)


def test_copied_recorder_runs_without_package(original, bf16, tmp_path, monkeypatch):
    shutil.copy(Path(gt.__file__).with_name("_record.py"), tmp_path / "gguf_record.py")
    with monkeypatch.context() as context:
        context.syspath_prepend(tmp_path)
        context.setitem(sys.modules, "gguf_tools", None)
        path = importlib.import_module("gguf_record").write(*original, tmp_path / "record.json")
    report = gt.check_against(path, bf16)
    assert report.is_same, str(report)


def test_broken_record_is_refused(bf16, tmp_path):
    path = tmp_path / "record.json"
    path.write_text('{"format": "gguf-tools record", "version": 1, "arrays": {"length": 5}}')
    with pytest.raises(gt.GgufError, match="expected 5 f32"):
        gt.check_against(path, bf16)
