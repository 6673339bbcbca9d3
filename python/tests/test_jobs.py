"""Conversions: the bytes of the command line, progress, Ctrl-C, models in memory."""

import json
import os
import signal
import subprocess
import sysconfig
import threading

import gguf_tools as gt
import numpy as np
import pytest

PROGRAMS = sysconfig.get_path("scripts")


def program(name: str) -> str:
    return os.path.join(PROGRAMS, name)


def test_programs_are_installed(checkpoint, tmp_path):
    out = tmp_path / "shell.gguf"
    subprocess.run(
        [program("gguf-convert"), checkpoint, out, "--type", "q4_k_m", "--quiet"], check=True
    )
    (ours,) = gt.convert(checkpoint, tmp_path / "python.gguf", file_type="q4_k_m")
    assert ours.read_bytes() == out.read_bytes()
    shown = subprocess.run([program("gguf-inspect"), "show", out, "--list"], check=True, capture_output=True, text=True)
    assert "blk.0.attn_q.weight" in shown.stdout
    wrong = subprocess.run([program("gguf-quantize"), "--no-such"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--no-such" in wrong.stderr
    failed = subprocess.run([program("gguf-eval"), "perplexity", checkpoint, "--text", "none"], capture_output=True)
    assert failed.returncode == 1


def test_folder_is_converted_as_planned(checkpoint, tmp_path):
    planned = gt.plan(checkpoint, file_type=["q8_0", "f16"])
    seen = []
    paths = gt.convert(
        checkpoint, f"{tmp_path}/out/", file_type=["q8_0", "f16"], progress=lambda *now: seen.append(now)
    )
    assert [path.name for path in paths] == [file.name for file in planned]
    assert [path.stat().st_size for path in paths] == [file.nbytes for file in planned]
    assert planned[0].tensors["blk.0.attn_q.weight"] == "q8_0" and planned[0].type == "q8_0"
    assert seen[-1][0] == seen[-1][1] > 0
    with pytest.raises(gt.GgufError, match="exists"):
        gt.convert(checkpoint, paths[0], file_type="q8_0")
    gt.convert(checkpoint, paths[0], file_type="q8_0", overwrite=True, threads=1)


def test_file_is_quantized(bf16, tmp_path):
    (path,) = gt.quantize(bf16, tmp_path / "q.gguf", file_type="Q5_K_M")
    assert gt.open(path)["blk.0.ffn_up.weight"].type == "q5_k"
    with pytest.raises(gt.GgufError) as caught:
        gt.quantize(path, tmp_path / "q8.gguf", file_type="q8_0")
    assert caught.value.tensor == "output.weight" and caught.value.found == "q6_K"
    gt.quantize(path, tmp_path / "q8.gguf", file_type="q8_0", allow_requantize=True)
    assert [file.type for file in gt.plan(bf16, file_type="q4_0")] == ["q4_0"]


def test_parts_give_the_file_of_one_call(checkpoint, bf16, tmp_path):
    plan, out = tmp_path / "plan.json", tmp_path / "parts.gguf"
    for src, call, part_files in [(checkpoint, gt.convert, False), (bf16, gt.quantize, True)]:
        (whole,) = call(src, tmp_path / "whole.gguf", file_type="q4_k_m", overwrite=True)
        gt.plan_parts(plan, src, out, file_type="q4_k_m", overwrite=True)
        gt.part(plan, 2, 2, part_files=part_files)
        with pytest.raises(gt.GgufError, match="part 1 of 2 is missing"):
            gt.assemble(plan)
        gt.part(plan, 1, 2, part_files=part_files, threads=1)
        assert gt.assemble(plan) == [out] and out.read_bytes() == whole.read_bytes()
        out.unlink()
    with pytest.raises(gt.GgufError, match="exists"):
        gt.plan_parts(plan, bf16, out, file_type="q4_k_m")
    with pytest.raises(gt.GgufError, match="expected K/N"):
        gt.part(plan, 3, 2)
    with pytest.raises(TypeError, match="'resume'"):
        gt.plan_parts(plan, bf16, out, file_type="q4_k_m", resume=True)
    with pytest.raises(TypeError, match="recipe: expected a file"):
        gt.plan_parts(plan, bf16, out, recipe={})


def test_exception_of_progress_stops_without_output(checkpoint, tmp_path):
    def stop(done, total):
        raise ZeroDivisionError

    # The first report may be the last if the run is faster than one interval; then the file is complete.
    with pytest.raises(ZeroDivisionError):
        gt.convert(checkpoint, tmp_path / "x.gguf", file_type="iq4_xs", progress=stop, threads=1)
    assert [name for name in os.listdir(tmp_path) if name != "x.gguf"] == []


def large_model():
    """A checkpoint whose conversion takes seconds: its matrices are costly to quantize."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 1024,
        "intermediate_size": 16384,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "vocab_size": 259,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
    }
    rng = np.random.default_rng(3)
    block = rng.normal(0, 0.02, (16384, 1024)).astype(np.float32)
    state = {"model.embed_tokens.weight": block[:259].copy(), "lm_head.weight": block[259:518].copy()}
    state["model.norm.weight"] = np.ones(1024, np.float32)
    for layer in range(4):
        start = f"model.layers.{layer}."
        for name in "qkvo":
            state[f"{start}self_attn.{name}_proj.weight"] = np.roll(block[:1024], layer + 1, 1)
        state[f"{start}mlp.gate_proj.weight"] = np.roll(block, layer + 5, 1)
        state[f"{start}mlp.up_proj.weight"] = np.roll(block, layer + 9, 1)
        state[f"{start}mlp.down_proj.weight"] = np.roll(block, layer + 13, 1).reshape(1024, 16384)
        state[f"{start}input_layernorm.weight"] = np.ones(1024, np.float32)
        state[f"{start}post_attention_layernorm.weight"] = np.ones(1024, np.float32)
    return config, state


def test_ctrl_c_stops_without_output(checkpoint, tmp_path):
    config, state = large_model()
    out = tmp_path / "out.gguf"
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        gt.save(state, out, config=config, tokenizer=checkpoint, file_type="iq3_s", threads=1)
    timer.join()
    assert os.listdir(tmp_path) == []


def test_other_threads_continue(checkpoint, tmp_path):
    config, state = large_model()
    counted, stop = [0], threading.Event()

    def count():
        while not stop.wait(0.001):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    gt.save(state, tmp_path / "out.gguf", config=config, tokenizer=checkpoint, file_type="q4_k_m", threads=1)
    stop.set()
    thread.join()
    assert counted[0] > 10


def read_safetensors(path):
    """Returns arrays by name; bf16 has the type of ml_dtypes."""
    import ml_dtypes

    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    types = {"BF16": ml_dtypes.bfloat16, "F32": np.float32, "F16": np.float16, "I64": np.int64}
    state = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            body = data[8 + length + begin : 8 + length + end]
            state[name] = np.frombuffer(body, types[entry["dtype"]]).reshape(entry["shape"])
    return state


@pytest.mark.parametrize("type", ["bf16", "f32", "q4_k_m"])
def test_state_dict_gives_the_file_of_its_folder(type, checkpoint, tmp_path):
    state = read_safetensors(checkpoint / "model.safetensors")
    config = json.loads((checkpoint / "config.json").read_text())
    (ours,) = gt.save(
        state, tmp_path / "memory.gguf", config=config, tokenizer=checkpoint, name="llama", file_type=type
    )
    (theirs,) = gt.convert(checkpoint, tmp_path / "folder.gguf", file_type=type)
    assert ours.read_bytes() == theirs.read_bytes()
    # A matrix with two names is stored once, as in files.
    state["model.extra.weight"] = state["model.norm.weight"]
    gt.save(state, ours, config=config, tokenizer=checkpoint, name="llama", file_type=type, overwrite=True)
    assert ours.read_bytes() == theirs.read_bytes()
    # Arrays that are not contiguous are read too.
    name = "model.layers.0.mlp.up_proj.weight"
    state[name] = np.asfortranarray(state[name])
    gt.save(state, ours, config=config, tokenizer=checkpoint, name="llama", file_type=type, overwrite=True)
    assert ours.read_bytes() == theirs.read_bytes()


def test_invalid_state_dict_is_refused(checkpoint, tmp_path):
    state = read_safetensors(checkpoint / "model.safetensors")
    config = json.loads((checkpoint / "config.json").read_text())

    def saved(**changes):
        gt.save({**state, **changes}, tmp_path / "x.gguf", config=config, tokenizer=checkpoint, file_type="f32")

    with pytest.raises(TypeError, match="datetime64"):
        saved(**{"model.norm.weight": np.zeros(256, "datetime64[s]")})
    with pytest.raises(gt.GgufError) as caught:
        saved(**{"model.layers.0.extra.weight": np.zeros((3, 4), np.float32)})
    assert caught.value.tensor == "model.layers.0.extra.weight"
    with pytest.raises(gt.GgufError) as caught:
        gt.save(state, tmp_path / "x.gguf", tokenizer={}, file_type="f32")
    assert caught.value.file == "config.json"
    assert os.listdir(tmp_path) == []


def assert_saved_like_its_folder(model, type, tmp_path):
    folder = tmp_path / "saved"
    model.save_pretrained(folder)
    tokenizer = byte_level_tokenizer()
    for name, content in tokenizer.items():
        (folder / name).write_bytes(content)
    (theirs,) = gt.convert(folder, tmp_path / "folder.gguf", file_type=type)
    (ours,) = gt.save(model, tmp_path / "memory.gguf", tokenizer=tokenizer, name="saved", file_type=type)
    assert ours.read_bytes() == theirs.read_bytes()


def test_torch_models_are_saved_from_memory(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.Qwen3Config(
        vocab_size=260, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=128, tie_word_embeddings=True,
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    assert_saved_like_its_folder(model, "q8_0", tmp_path)


def test_experts_are_saved_as_in_their_files(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(6)
    config = transformers.Qwen3MoeConfig(
        vocab_size=260, hidden_size=64, intermediate_size=128, moe_intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_experts=4, num_experts_per_tok=2,
        max_position_embeddings=128,
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    assert_saved_like_its_folder(model, "f16", tmp_path)


def byte_level_tokenizer() -> dict:
    """A byte-level BPE tokenizer with the 256 bytes and an end-of-text token."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {byte: chr(byte) for byte in plain}
    rest = [byte for byte in range(256) if byte not in spelled]
    spelled.update({byte: chr(256 + index) for index, byte in enumerate(rest)})
    vocab = {spelled[byte]: byte for byte in range(256)}
    vocab["<|endoftext|>"] = 256
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": 256, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": []},
    }
    settings = {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>"}
    return {
        "tokenizer.json": json.dumps(tokenizer).encode(),
        "tokenizer_config.json": json.dumps(settings).encode(),
    }
