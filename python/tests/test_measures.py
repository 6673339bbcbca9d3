"""Measurements, which equal those of the command line."""

import json
import os
import signal
import subprocess
import sysconfig
import threading

import gguf_tools as gt
import numpy as np
import pytest

TEXT = "The quick brown fox jumps over the lazy dog. " * 20


def test_perplexity_and_comparison(bf16, tmp_path):
    text = tmp_path / "text"
    text.write_text(TEXT)
    (small,) = gt.quantize(bf16, tmp_path / "q4_0.gguf", file_type="q4_0")
    with pytest.warns(gt.GgufWarning, match=r"pass Path\("), pytest.raises(gt.GgufError):
        gt.perplexity(bf16, str(text), context=512)
    seen = []
    found = gt.perplexity(bf16, text, context=64, progress=lambda *now: seen.append(now))
    assert found == gt.perplexity(bf16, TEXT, context=64, threads=1)
    assert seen[-1] == (found.chunks, found.chunks)
    program = os.path.join(sysconfig.get_path("scripts"), "gguf-eval")
    call = [program, "perplexity", bf16, "--text", text, "--context", "64", "--json"]
    shell = json.loads(subprocess.run(call, check=True, capture_output=True).stdout)
    assert (found.value, found.error) == (shell["perplexity"], shell["perplexity_error"])
    compared = gt.compare(bf16, small, text, context=64, chunks=3)
    # Sums of another order differ in their last digits.
    assert compared.base_perplexity.value == pytest.approx(gt.perplexity(bf16, text, context=64, chunks=3).value, rel=1e-6)
    assert compared.kl.value > 0 and compared.kl_quantiles["maximum"] >= compared.kl.value
    assert gt.compare(bf16, bf16, TEXT, context=64).kl.value == 0
    call = [program, "compare", bf16, small, "--text", text, "--context", "64", "--chunks", "3", "--continuations", "3", "--json"]
    shell = json.loads(subprocess.run(call, check=True, capture_output=True).stdout)["files"][0]["continuations"]
    found = gt.compare(bf16, small, text, context=64, chunks=3, continuations=3).continuations
    assert found.same._asdict() == shell.pop("same")
    assert found.tokens_before_difference._asdict() == shell.pop("tokens_before_difference")
    assert shell == {"n_prompts": 3, "prompt_tokens": 64, "continuation_tokens": 32}
    assert compared.continuations is None


def test_several_files_are_compared_in_one_pass(bf16, tmp_path):
    q4_0, q8_0 = gt.quantize(bf16, tmp_path / "{ftype}.gguf", file_type=["q4_0", "q8_0"])
    page, logits = tmp_path / "page.html", tmp_path / "base.kld"
    outputs = {"html": page, "save_logits": logits}
    small, large = gt.compare(bf16, [q4_0, q8_0], TEXT, context=64, chunks=2, tensors=True, **outputs)
    assert (small.file, large.file) == (str(q4_0), str(q8_0))
    assert small.nbytes == q4_0.stat().st_size < large.nbytes
    assert small.kl.value > large.kl.value > 0
    assert len(small.kl_by_chunk) == 2 and sum(small.kl_by_chunk) / 2 == pytest.approx(small.kl.value)
    alone = gt.compare(bf16, q4_0, TEXT, context=64, chunks=2)
    assert alone.kl == small.kl and alone.tensors is None
    # The errors of a tensor are those of its decoded values.
    name = "blk.0.ffn_down.weight"
    difference = small.tensors[name]
    base, other = (gt.open(path)[name].decode().astype("f8") for path in (bf16, q4_0))
    assert difference.rmse == pytest.approx(((other - base) ** 2).mean() ** 0.5, rel=1e-4)
    assert (difference.base_type, difference.type, difference.elements) == ("bf16", "q4_0", base.size)
    assert small.tensors["output_norm.weight"].snr_db is None
    assert list(small.tensors) == list(gt.open(bf16))
    # Saved logits stand for the base, and only tensors need no text.
    assert page.read_text().startswith("<!") and logits.stat().st_size
    assert gt.compare(logits, q4_0).kl.value == pytest.approx(small.kl.value, rel=0.05)
    only = gt.compare(bf16, q4_0, tensors=True)
    assert only.kl is None and only.tokens is None and only.tensors[name] == difference
    with pytest.raises(gt.GgufError, match="text"):
        gt.compare(bf16, q4_0)


def test_matrices_add_up(bf16, tmp_path):
    both, first, second = (tmp_path / name for name in ("both.gguf", "first.gguf", "second.gguf"))
    texts = [TEXT, "A lazy dog sleeps. " * 40]
    made = gt.imatrix(bf16, texts, both, context=32)
    parts = [gt.imatrix(bf16, text, path, context=32) for text, path in zip(texts, (first, second))]
    assert made.path == str(both) and made.chunks == sum(part.chunks for part in parts) > 2
    assert made.not_covered == {} and made.context == 32 and made.datasets == ["(memory)"] * 2
    merged = gt.imatrix(None, None, tmp_path / "merged.gguf", context=32, merge=[first, second])
    assert merged.entries == made.entries > 0

    def sums(path):
        return {name: tensor.decode() for name, tensor in gt.open(path).items()}

    ours, theirs = sums(both), sums(tmp_path / "merged.gguf")
    assert ours.keys() == theirs.keys() and len(ours) == 2 * made.entries
    assert all(np.allclose(ours[name], theirs[name], rtol=1e-5) for name in ours)
    with pytest.raises(gt.GgufError, match="exists"):
        gt.imatrix(bf16, TEXT, both, context=32)
    with pytest.raises(ValueError, match="npz"):
        gt.imatrix(bf16, TEXT, tmp_path / "x", format="npz")
    # It is used.
    plain, weighted = (
        gt.quantize(bf16, tmp_path / name, file_type="q4_k_m", imatrix=imatrix)[0]
        for name, imatrix in (("plain.gguf", None), ("weighted.gguf", both))
    )
    raw = [gt.open(path)["blk.0.attn_q.weight"].raw for path in (plain, weighted)]
    assert raw[0].shape == raw[1].shape and (raw[0] != raw[1]).any()


def test_matrix_of_a_chat_file(bf16, tmp_path):
    chats = tmp_path / "chats.jsonl"
    line = json.dumps({"messages": [{"role": "user", "content": TEXT}]})
    chats.write_text(f"{line}\n{line}\n")
    assert gt.imatrix(bf16, chats, tmp_path / "chats.gguf", context=32).datasets == [str(chats)]


def test_worse_file_fails_the_check(bf16, tmp_path):
    (small,) = gt.quantize(bf16, tmp_path / "q2_k.gguf", file_type="q2_k")
    baseline = tmp_path / "baseline.json"
    assert gt.check(bf16, TEXT, baseline, save=True, base=bf16, context=64, chunks=2) == []
    same = gt.check(bf16, TEXT, baseline, base=bf16)
    assert [verdict.metric for verdict in same] == ["perplexity", "divergence"]
    assert not any(verdict.is_worse for verdict in same) and same[0].value == pytest.approx(same[0].baseline)
    worse = gt.check(small, TEXT, baseline, base=bf16)
    assert worse[1].is_worse and worse[1].value > worse[1].highest
    assert same[1].difference.value == pytest.approx(0) and worse[1].difference.value > 0
    # The base itself loses nothing, compared with a base that was trained again.
    assert not any(verdict.is_worse for verdict in gt.check(small, TEXT, baseline, base=small, new_base=True))
    wide = gt.check(small, TEXT, baseline, base=bf16, perplexity_margin=1000.0)
    assert not wide[0].is_worse
    with pytest.raises(gt.GgufError, match="differs"):
        gt.check(bf16, TEXT + "!", baseline, base=bf16)


def test_invalid_measurement_states_its_cause(bf16):
    with pytest.raises(gt.GgufError) as caught:
        gt.perplexity(bf16, "short")
    assert int(caught.value.expected) == 1024 > int(caught.value.found)
    with pytest.raises(ValueError, match="rounded"):
        gt.perplexity(bf16, TEXT, activations="f16")


def test_ctrl_c_stops(bf16):
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        gt.perplexity(bf16, TEXT * 2000, context=512, threads=1)
    timer.join()
