"""The example of the page "A tool in Python"."""

import runpy

import pytest

import gguf_tools as gt


def test_example_runs_and_stops(checkpoint, tmp_path):
    run = runpy.run_path(str(checkpoint.parents[2] / "python" / "examples" / "tool.py"))["run"]
    text = tmp_path / "text"
    text.write_text("The quick brown fox jumps over the lazy dog, reads some files and writes others. " * 80)
    seen = []
    file, divergence, made = run(checkpoint, tmp_path, text, lambda *now: seen.append(now))
    assert file.name == "model-q4_k_m.gguf" and 0 < divergence < 0.1 and made
    assert seen[-1][0] == seen[-1][1] > 0

    def stop(done, total):
        raise KeyError("stop")

    stopped = tmp_path / "stopped"
    stopped.mkdir()
    with pytest.raises(KeyError):
        run(checkpoint, stopped, text, stop)
    # A call that had ended before the first progress leaves complete files.
    assert all(gt.verify(file).good for file in stopped.glob("*.gguf"))
