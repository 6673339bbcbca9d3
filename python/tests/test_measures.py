"""Figures are those of the command line."""

import json
import os
import signal
import subprocess
import sysconfig
import threading

import gguf_tools as gt
import pytest

TEXT = "The quick brown fox jumps over the lazy dog. " * 20


def test_perplexity_and_comparison(bf16, tmp_path):
    text = tmp_path / "text"
    text.write_text(TEXT)
    (small,) = gt.quantize(bf16, tmp_path / "q4_0.gguf", type="q4_0")
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


def test_what_cannot_be_measured_says_why(bf16):
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
