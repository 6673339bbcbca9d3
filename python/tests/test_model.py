"""Running a file: results compared with transformers and with the reference."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import gguf_tools as gt
import numpy as np
import pytest

TEXT = "The quick brown fox"
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello!"},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "How are you?"},
]


@pytest.fixture(scope="module")
def f32(checkpoint, tmp_path_factory):
    (path,) = gt.convert(checkpoint, tmp_path_factory.mktemp("model") / "f32.gguf", file_type="f32")
    return path


@pytest.fixture(scope="module")
def model(f32):
    return gt.Model(f32)


@pytest.fixture(scope="module")
def original(checkpoint):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    return model, transformers.AutoTokenizer.from_pretrained(checkpoint)


def test_properties_are_those_of_the_file(model, f32):
    file = gt.open(f32)
    assert dict(model.metadata) == dict(file.metadata)
    assert model.architecture == "llama" and "llama" in repr(model)
    assert model.n_vocab == len(file.metadata["tokenizer.ggml.tokens"])
    assert model.context_length == file.metadata["llama.context_length"]
    assert model.labels == [] and model.path == f32


def test_text_survives_tokens(model):
    ids = model.tokenize(TEXT, add_special=False)
    assert ids and all(type(id) is int for id in ids)
    assert model.detokenize(ids) == TEXT and model.detokenize(np.array(ids)) == TEXT
    bos = model.metadata["tokenizer.ggml.bos_token_id"]
    assert model.tokenize(TEXT) == [bos, *ids] == model.tokenize(TEXT.encode())
    assert model.tokenize("<s>", add_special=False, parse_special=True) == [bos]
    assert bos not in model.tokenize("<s>", add_special=False)
    # The euro sign has three bytes, and this vocabulary a token for each.
    euro = model.tokenize("€", add_special=False)
    assert model.detokenize_bytes(euro).strip() == "€".encode()
    assert "\ufffd" in model.detokenize(euro[:-1])
    with pytest.raises(gt.GgufError):
        model.detokenize([model.n_vocab])


def test_tokens_and_logits_are_those_of_transformers(model, original):
    import torch

    theirs, tokenizer = original
    for text in (TEXT, "Zürich, €5", "a\n\nb"):
        assert model.tokenize(text) == tokenizer(text)["input_ids"]
    ids = model.tokenize(TEXT)
    logits = model.logits(ids)
    assert logits.dtype == np.float32 and logits.shape == (len(ids), model.n_vocab)
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits[0].numpy()
    assert np.abs(logits - expected).max() < 1e-3
    assert (logits.argmax(1) == expected.argmax(1)).all()
    assert model.logits([]).shape == (0, model.n_vocab)


def test_prompts_are_those_of_transformers(model, original):
    _, tokenizer = original
    for messages in (MESSAGES[:2], MESSAGES):
        expected = tokenizer.apply_chat_template(messages, tokenize=False)
        assert model.apply_chat_template(messages, add_generation_prompt=False) == expected


def test_prompts_of_a_template(model, f32, tmp_path):
    assert model.apply_chat_template(MESSAGES[:2]) == "[system] Be brief.\n[user] Hello!\n"
    template = (
        "{% for m in messages %}{{ m.content }}|{% endfor %}{{ tools | length if tools else 'none' }}|{{ mood }}"
        "{{ '|go' if add_generation_prompt }}"
    )
    path = tmp_path / "chat.gguf"
    gt.edit_metadata(f32, chat_template=template, output=path)
    chat = gt.Model(path)
    assert chat.apply_chat_template(MESSAGES[1:2], mood="calm") == "Hello!|none|calm|go"
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    assert chat.apply_chat_template(MESSAGES[1:2], tools=[tool], add_generation_prompt=False) == "Hello!|1|"
    assert chat.starts_with_bos("<s>Hello!") and not chat.starts_with_bos("Hello!")
    with pytest.raises(gt.GgufError, match="tool_use"):
        chat.apply_chat_template(MESSAGES, template="tool_use")
    with pytest.raises(ValueError, match="no messages"):
        chat.apply_chat_template([])
    gt.edit_metadata(f32, unset="tokenizer.chat_template", output=tmp_path / "plain.gguf")
    with pytest.raises(gt.GgufError, match="chat_template"):
        gt.Model(tmp_path / "plain.gguf").apply_chat_template(MESSAGES)


def test_greedy_text_follows_the_logits(model):
    text = model.generate(TEXT, max_tokens=8)
    ids = model.tokenize(TEXT)
    end = model.metadata["tokenizer.ggml.eos_token_id"]
    made = []
    for _ in range(8):
        token = int(model.logits(ids + made)[-1].argmax())
        if token == end:
            break
        made.append(token)
    assert made and text == model.detokenize(made)
    pieces = list(model.generate(TEXT, max_tokens=8, stream=True))
    assert len(pieces) > 1 and "".join(pieces) == text


def test_seed_decides_the_text(model):
    def sampled(seed):
        return model.generate(TEXT, max_tokens=16, temperature=1.5, top_k=0, top_p=1.0, seed=seed)

    assert sampled(1) == sampled(1)
    # Only the likeliest token has as large a share.
    assert model.generate(TEXT, max_tokens=8, temperature=1.5, min_p=1.0) == model.generate(TEXT, max_tokens=8)
    assert model.generate(TEXT, max_tokens=16, repeat_penalty=1e9) != model.generate(TEXT, max_tokens=16)
    assert len({sampled(seed) for seed in range(4)}) > 1


def test_messages_are_answered_through_the_template(model):
    prompt = model.apply_chat_template(MESSAGES)
    assert not model.starts_with_bos(prompt)
    # The prompt has no special tokens, so it is the same text.
    assert model.generate(MESSAGES, max_tokens=8) == model.generate(prompt, max_tokens=8)
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hello!"}]}]
    assert model.generate(parts, max_tokens=4) == model.generate(MESSAGES[1:2], max_tokens=4)
    with pytest.raises(ValueError, match="list of messages"):
        model.generate("Hello!", tools=[])


def test_wrong_options_of_text_are_refused(model, tmp_path):
    with pytest.raises(gt.GgufError, match="temperature"):
        model.generate(TEXT, temperature=-1.0)
    with pytest.raises(gt.GgufError, match="mmproj"):
        model.generate(TEXT, images=["cat.png"])
    with pytest.raises(gt.GgufError, match="mmproj"):
        model.generate(TEXT, audio="talk.wav")
    with pytest.raises(ValueError, match="expected 1, one for each image"):
        model.generate([{"role": "user", "content": [{"type": "image"}]}])
    with pytest.raises(gt.GgufError) as caught:
        model.generate(TEXT, images="cat.png", mmproj=tmp_path / "none.gguf")
    assert caught.value.file == str(tmp_path / "none.gguf")
    with pytest.raises(ValueError, match="rounded"):
        gt.Model(model.path, activations="f16")
    with pytest.raises(gt.GgufError):
        gt.Model(tmp_path / "none.gguf")


def test_places_of_images():
    from gguf_tools._model import _with_places

    def contents(messages, *n):
        return [message["content"] for message in _with_places(messages, *n)]

    assert contents(MESSAGES, 0) == [message["content"] for message in MESSAGES]
    # Without a place, images come before the last message of the user.
    assert contents(MESSAGES, 2)[3] == "<__image__><__image__>How are you?"
    assert MESSAGES[3]["content"] == "How are you?"
    assert contents([{"role": "user", "content": "a <__media__> b"}], 1) == ["a <__media__> b"]
    parts = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}]}]
    assert contents(parts, 1) == ["<__image__>a"]
    audio = [{"role": "user", "content": [{"type": "audio"}]}]
    assert contents(audio, 0) == [[{"type": "audio"}]]
    assert contents(audio, 0, 1) == ["<__audio__>"]
    assert contents([{"role": "user", "content": "a <__media__> b"}], 0, 1) == ["a <__media__> b"]
    assert contents([{"role": "user", "content": "a"}], 1, 2) == ["<__image__><__audio__><__audio__>a"]
    both = [{"role": "user", "content": [{"type": "audio"}, {"type": "image"}, {"type": "text", "text": "a"}]}]
    assert contents(both, 1, 1) == ["<__audio__><__image__>a"]
    with pytest.raises(ValueError, match="audio: expected 1, .* found 2"):
        contents(both, 1, 2)
    with pytest.raises(ValueError, match="expected 1, .* found 2"):
        contents(parts, 2)


def n_threads():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads are counted in /proc")
def test_closing_the_iterator_stops(model):
    gc.collect()
    list(model.generate(TEXT, max_tokens=1, stream=True))
    before = n_threads()
    # More pieces than the queue holds, so that the model would continue.
    pieces = model.generate(TEXT, max_tokens=100_000, temperature=1.0, stream=True)
    next(pieces)
    assert n_threads() > before
    pieces.close()
    deadline = time.monotonic() + 30
    while n_threads() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert n_threads() <= before
    with pytest.raises(StopIteration):
        next(pieces)


def test_ctrl_c_stops_a_generation(model):
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        for seed in range(10_000):
            model.generate(TEXT * 20, max_tokens=1000, temperature=1.0, seed=seed)
    timer.join()


def test_unread_stream_does_not_block_the_exit(f32):
    code = f"import gguf_tools as gt; s = gt.Model({str(f32)!r}).generate('a', max_tokens=100000, temperature=1.0, stream=True); next(s)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_embeddings_are_means_of_vectors(model):
    texts = ["one", "one two three"]
    seen = []
    vectors = model.embed(texts, pooling="mean", progress=lambda *now: seen.append(now))
    assert vectors.dtype == np.float32 and vectors.shape == (2, 256) and seen[-1] == (2, 2)
    of_tokens = model.embed(texts, pooling="none")
    assert [len(tokens) for tokens in of_tokens] == [len(model.tokenize(text)) for text in texts]
    for vector, tokens in zip(vectors, of_tokens):
        assert np.allclose(vector, tokens.mean(0), atol=1e-5)
    assert np.allclose(model.embed("one", pooling="last"), of_tokens[0][-1], atol=1e-5)
    unit = model.embed(texts, pooling="mean", normalize=True)
    assert np.allclose((unit * unit).sum(1), 1, atol=1e-5)
    assert np.allclose(unit, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-5)
    assert len(model.embed([], pooling="mean")) == 0
    with pytest.raises(gt.GgufError, match="pooling"):
        model.embed("one")
    with pytest.raises(ValueError, match="cls"):
        model.embed("one", pooling="median")


def test_scores_are_those_of_the_reference(model, checkpoint):
    golden = checkpoint.parents[1] / "eval-cli"
    if not golden.is_dir():
        pytest.skip("the reference's results are in the sources")
    lines = [line.split() for line in (golden / "scores.txt").read_text().splitlines()]
    files = {"hellaswag": "hellaswag.txt", "winogrande": "winogrande.csv", "multiple-choice": "multiple-choice.bin"}
    for format, file in files.items():
        _, n_tasks, accuracy = [line for line in lines if line[0] == format][-1][:3]
        score = model.score(golden / file, format)
        assert score.tasks == int(n_tasks)
        assert 100 * score.accuracy == pytest.approx(float(accuracy.rstrip("%")), abs=1e-3)
        assert score.interval[0] <= score.accuracy <= score.interval[1]
    assert model.score(golden / "hellaswag.txt", tasks=2).tasks == 2
    with pytest.raises(ValueError, match="winogrande"):
        model.score(golden / "hellaswag.txt", "arc")


def test_chat_continues_over_turns(model):
    first = "[user] Hello!\n"
    if model.apply_chat_template([{"role": "user", "content": "Hello!"}]) != first:
        pytest.skip("another template")
    chat = model.chat(max_tokens=6, temperature=0)
    answer = chat.ask("Hello!")
    assert answer == model.generate([{"role": "user", "content": "Hello!"}], max_tokens=6)
    messages = [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "Again"},
    ]
    assert "".join(chat.ask("Again", stream=True)) == model.generate(messages, max_tokens=6)
    chat.reset()
    assert chat.ask("Hello!") == answer
    chat.set_system("Be brief.")
    chat.reset()
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}]
    assert chat.ask("Hello!") == model.generate(messages, max_tokens=6)


def test_checkpoint_is_converted_once(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, again = (gt.Model(checkpoint, convert=True).path for _ in range(2))
    assert first == again and list(tmp_path.glob("*.gguf")) == [tmp_path / first]


def test_chat_checks_options(model):
    with pytest.raises(gt.GgufError, match="temperature"):
        model.chat(temperature=-1)
    with pytest.warns(gt.GgufWarning, match="enable_thinking"):
        model.chat(think=False)
    template = "{{ 'a llama' if enable_thinking else 'x' }}"
    texts = [model.chat(chat_template=template, think=think, max_tokens=4, temperature=0).ask("") for think in (True, False)]
    assert texts == [model.generate(text, max_tokens=4) for text in ("a llama", "x")]
