"""Records of a model in transformers: token ids, prompts and predictions, for a comparison with a GGUF file.

This file is complete: a copy of it runs without the package, with torch, transformers and NumPy.

    import gguf_record  # a copy of _record.py
    gguf_record.write(model, tokenizer, "tuned.record.json")

The format is described in the crate ``gguf-toolkit``, module ``check_against::record``.
"""

from __future__ import annotations

import datetime
import json
import os
import re

import numpy as np

#: Texts whose token ids are compared: scripts, code, whitespace, digits, emoji, combining marks.
TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Hello",
    " Hello",
    "hello world",
    "It's 7 o'clock; they're late, we'll wait and I'd rather not.",
    "def f(x):\n    if x > 0:\n        return x ** 2\n\n\treturn None\n",
    "for (int i = 0; i < 10; ++i) { sum += a[i] * b[i]; } // total\r\n",
    '{"name": "test", "values": [1, 2.5, -3e10], "ok": true}',
    "0 1 12 123 1234 12345 1234567890 3.14159 1,000,000 0xFF",
    "   three spaces, then\ttabs\t\tand trailing spaces   ",
    "line one\nline two\n\nline four\n\n\n",
    "https://example.com/path?query=value&other=1#anchor user@example.org",
    "Größe, Ärger, naïve café, señor, Łódź, Ünïcödé",
    "Привет, мир! Как дела?",
    "中文分词测试,一二三。日本語のテキスト、カタカナ。 한국어 문장입니다.",
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया สวัสดีชาวโลก",
    "emoji 🙂 👩‍👩‍👧‍👦 🇩🇪 ❤️ and e\u0301 combined",
    "ALLCAPS MixedCase camelCase snake_case kebab-case",
    "\u00a0non-breaking\u2003em space\u200bzero width",
    "$100 + 20% = ~€120 (≈ £105) — “quotes”, ‘single’ … «guillemets»",
    "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β = ¬(¬α ∨ β)",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
)

_CITY = {"type": "string", "description": "Name of the city."}
_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": _CITY}, "required": ["city"]},
    },
}
_CALLED = {"type": "function", "id": "call00001", "function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}
_CALL = {"role": "assistant", "content": "", "tool_calls": [_CALLED]}
_RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": '{"sky": "sunny"}'}
_SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
_USER = {"role": "user", "content": "How is the weather in Zürich?"}
_ANSWER = {"role": "assistant", "content": "It is sunny."}
_THOUGHT = {**_ANSWER, "reasoning_content": "The user asks about the weather."}
_THANKS = {"role": "user", "content": "Thank you.\n\nAnd tomorrow?  "}

#: Conversations whose prompts are compared.
CONVERSATIONS = (
    {"name": "one turn", "messages": [_USER]},
    {"name": "system", "messages": [_SYSTEM, _USER]},
    {"name": "several turns", "messages": [_SYSTEM, _USER, _ANSWER, _THANKS]},
    {"name": "several turns without system", "messages": [_USER, _ANSWER, _THANKS]},
    {"name": "thinking", "messages": [_USER, _THOUGHT, _THANKS]},
    {"name": "thinking off", "messages": [_USER], "variables": {"enable_thinking": False}},
    {"name": "tools", "messages": [_SYSTEM, _USER], "tools": [_WEATHER]},
    {"name": "tool call and result", "messages": [_USER, _CALL, _RESULT], "tools": [_WEATHER]},
)

# Tokens of a sequence whose logits are recorded, and bytes of all logits.
_SEQUENCE_TOKENS = 48
_LOGIT_BYTES = 96 << 20


class _Arrays:
    """Arrays of f32, concatenated in one file."""

    def __init__(self) -> None:
        self.parts: list = []
        self.length = 0

    def add(self, array) -> dict:
        array = np.ascontiguousarray(array, dtype="<f4")
        entry = {"at": self.length, "shape": list(array.shape)}
        self.parts.append(array)
        self.length += array.size
        return entry


def write(model, tokenizer, path, *, texts=None, conversations=None, sequences=None, positions=16, weights=True):
    """Writes the record of a model and its tokenizer to ``path`` (JSON) and the file of arrays next to it."""
    path = os.fspath(path)
    arrays = _Arrays()
    record = {"format": "gguf-tools record", "version": 1}
    if tokenizer is not None:
        record.update(_of_tokenizer(tokenizer, model, texts, conversations))
    if model is not None:
        record.update(_of_model(model, tokenizer, sequences, positions, weights, record, arrays))
    record["arrays"] = {"length": arrays.length}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file, ensure_ascii=False)
        file.write("\n")
    with open(os.path.splitext(path)[0] + ".f32", "wb") as file:
        for part in arrays.parts:
            file.write(part.tobytes())
    return path


def _ids(tokenizer, text, special=False) -> list:
    ids = tokenizer(text, add_special_tokens=special)["input_ids"]
    return [int(token) for token in ids]


def _of_tokenizer(tokenizer, model, texts, conversations) -> dict:
    special = {}
    for name in ("bos", "eos", "pad", "unk"):
        token = getattr(tokenizer, f"{name}_token_id", None)
        if token is not None:
            special[name] = {"id": int(token), "text": str(getattr(tokenizer, f"{name}_token"))}
    plain, whole = _ids(tokenizer, "a"), _ids(tokenizer, "a", special=True)
    start = next((at for at in range(len(whole)) if whole[at : at + len(plain)] == plain), None)
    if plain and start is not None:
        special["before"] = whole[:start]
        special["after"] = whole[start + len(plain) :]
    ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if ends is not None:
        ends = [ends] if isinstance(ends, int) else ends
        special["ends"] = [{"id": int(token), "text": str(tokenizer.convert_ids_to_tokens(int(token)))} for token in ends]
    texts = TEXTS if texts is None else texts
    made = {
        "tokenizer": {"class": type(tokenizer).__name__, "tokens": len(tokenizer)},
        "special": special,
        "texts": [{"text": text, "ids": _ids(tokenizer, text)} for text in texts],
    }
    if getattr(tokenizer, "chat_template", None):
        made["date"] = datetime.datetime.now().date().isoformat()
        chats = CONVERSATIONS if conversations is None else [_chat(chat, at) for at, chat in enumerate(conversations)]
        made["prompts"] = [_prompt(tokenizer, chat, starts) for chat in chats for starts in (False, True)]
    return made


def _chat(chat, at) -> dict:
    """A conversation as a dict; a plain list holds its messages."""
    chat = dict(chat) if isinstance(chat, dict) else {"messages": chat}
    chat.setdefault("name", f"conversation {at + 1}")
    return chat


def _prompt(tokenizer, chat, starts) -> dict:
    prompt = {**chat, "generation_prompt": starts}
    try:
        prompt["text"] = tokenizer.apply_chat_template(
            chat["messages"], tools=chat.get("tools"), tokenize=False, add_generation_prompt=starts, **chat.get("variables", {})
        )
    except Exception as error:  # Templates refuse conversations with errors of any class.
        prompt["refused"] = f"{type(error).__name__}: {error}"
    return prompt


def _of_model(model, tokenizer, sequences, positions, weights, record, arrays) -> dict:
    import torch
    import transformers

    made = {
        "model": {
            "class": type(model).__name__,
            "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
            "versions": f"transformers {transformers.__version__}, torch {torch.__version__}",
        },
        "config": json.loads(_json(_config_of(model))),
        "weights": _weights(_state_dict(model), weights, arrays),
    }
    if sequences is None:
        sequences = _sequences(model, tokenizer, record)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            made["sequences"] = _run(model, sequences, positions, arrays)
    finally:
        model.train(was_training)
    return made


def _state_dict(model) -> dict:
    """Returns the state dict that ``save_pretrained`` writes."""
    tied = getattr(model, "all_tied_weights_keys", None) or ()
    ignored = [re.compile(pattern) for pattern in getattr(model, "_keys_to_ignore_on_save", None) or ()]
    # A tied matrix is stored under the name of the matrix that it is tied to.
    state = {
        name: value
        for name, value in model.state_dict().items()
        if name not in tied and not any(pattern.search(name) for pattern in ignored)
    }
    try:
        # Since transformers 5 the weights of some models, mainly experts, have another layout than in their files.
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return state
    return revert_weight_conversion(model, state)


def _config_of(model):
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "to_dict"):
        return config
    given = json.loads(_json(config))
    # The config of a model that was never saved has no class name.
    given["architectures"] = [type(model).__name__]
    return given


def _json(value) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    # A config of transformers writes its differences from the defaults, as in its file.
    if hasattr(value, "to_json_string"):
        return value.to_json_string().encode()
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    return json.dumps(value).encode()


def _sequences(model, tokenizer, record) -> list:
    """Token ids to predict: two texts and a prompt; without a tokenizer, pseudorandom ids."""
    vocab = model.get_input_embeddings().weight.shape[0]
    if tokenizer is None:
        return [[(7919 * at * at + 104729 * at + 11) % vocab for at in range(_SEQUENCE_TOKENS)]]
    prose = " ".join(TEXTS[at] for at in (0, 4, 17))
    texts = [_ids(tokenizer, prose, True), _ids(tokenizer, TEXTS[5] + TEXTS[6], True)]
    prompts = [prompt["text"] for prompt in record.get("prompts", []) if "text" in prompt]
    if prompts:
        # The template writes the special tokens itself.
        texts.append(_ids(tokenizer, max(prompts[:8], key=len)))
    sequences = [[token for token in ids if token < vocab][:_SEQUENCE_TOKENS] for ids in texts]
    return [ids for ids in sequences if len(ids) > 1]


def _weights(state, weights, arrays) -> list:
    """Name and shape of each tensor; with ``weights`` two numbers for each row: its product with a vector of signs, and
    its length."""
    rows = []
    for name, tensor in state.items():
        entry = {"name": name, "shape": list(tensor.shape)}
        if weights and tensor.numel() and tensor.is_floating_point():
            entry["rows"] = arrays.add(_projections(tensor.detach()))
        rows.append(entry)
    return rows


def _projections(tensor):
    """(n_rows, 2) f32; the elements of a vector are rows of their own."""
    import torch

    matrix = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() > 1 else tensor.reshape(-1, 1)
    signs = torch.from_numpy(_signs(matrix.shape[1]))
    made = np.empty((matrix.shape[0], 2), np.float32)
    step = max(1, (16 << 20) // matrix.shape[1])
    for at in range(0, matrix.shape[0], step):
        part = matrix[at : at + step].to("cpu", torch.float64)
        made[at : at + step, 0] = (part @ signs).numpy()
        made[at : at + step, 1] = part.norm(dim=1).numpy()
    return made


def _signs(n):
    """n signs, (n,) f64: +1 if the upper bit of the output of SplitMix64 for the index is 0, otherwise -1."""
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return 1.0 - 2.0 * (z >> np.uint64(63)).astype(np.float64)


def _run(model, sequences, positions, arrays) -> list:
    import torch

    device = next(model.parameters()).device
    made = []
    for ids in sequences:
        ids = [int(token) for token in ids]
        inputs = _Inputs(model, len(ids))
        try:
            logits = model(torch.tensor([ids], device=device), use_cache=False).logits[0]
        finally:
            inputs.remove()
        n_vocab = logits.shape[1]
        most = max(2, _LOGIT_BYTES // (4 * n_vocab * max(1, len(sequences))))
        kept = _spread(len(ids), min(positions, most))
        rows = logits[kept].to("cpu", torch.float32).numpy()
        entry = {"ids": ids, "positions": kept, "logits": arrays.add(rows)}
        entry["modules"] = list(inputs.seen)
        if inputs.seen:
            stacked = torch.stack(list(inputs.seen.values()))
            entry["inputs"] = arrays.add(stacked.numpy())
        made.append(entry)
    return made


def _spread(length, n) -> list:
    """Up to n positions: the first, the last, and others at equal distances."""
    if n >= length:
        return list(range(length))
    return sorted({round(at * (length - 1) / (n - 1)) for at in range(n)})


class _Inputs:
    """For each linear module its inputs: product with signs and length of the vector of each token."""

    def __init__(self, model, length) -> None:
        import torch

        self.seen: dict = {}
        self.hooks: list = []
        dropped: set = set()

        def hook(name):
            def see(_module, args, kwargs):
                x = args[0] if args else kwargs.get("input", kwargs.get("hidden_states"))
                if x is None or x.dim() != 3 or tuple(x.shape[:2]) != (1, length) or name in self.seen:
                    # An expert gets only some of the tokens, and a shared module is called more than once.
                    dropped.add(name)
                    self.seen.pop(name, None)
                elif name not in dropped:
                    x = x[0].to("cpu", torch.float64)
                    signs = torch.from_numpy(_signs(x.shape[-1]))
                    self.seen[name] = torch.stack([x @ signs, x.norm(dim=-1)], dim=-1).float()

            return see

        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D":
                self.hooks.append(module.register_forward_pre_hook(hook(name), with_kwargs=True))

    def remove(self) -> None:
        for hook in self.hooks:
            hook.remove()
