"""Makes pairs as the reference's tokenizer tests have them, for kinds of vocabularies that those lack.

The keys of a folder of golden/tokenizer, as the reference's converter makes them, are written by
its GGUFWriter and read by its llama_tokenize. Same files as tokenizer_pairs.py: NAME.gguf, .inp
with the texts, .out with their ids. `--input bindings=` names the folder `llama_cpp` of llama-cpp-python, for its
ctypes. With `--input tokenize=PROGRAM` (tokenize.cpp) and `--input ahead=1`, the vocabularies are made that only a newer tree
than the pinned one reads.
"""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import tokenizer

NAMES = ["plamo2", "rwkv-world", "unigram-t5", "gemma4"]
AHEAD = ["plamo3", "bpe-mmbert", "bpe-k2-horizon"]
TEXTS = [
    "", "a", " a", "  a b ", "the", "the the", " a a", "日本", "日本語 é", "\n\n", "a\n\n\nb", "éé e\u0301",
        "x\u2581x \u2581x", "it's '\"", "привет ab",
    "Größe, façade, naïve, Ωmega,日本語, привет, emoji 🦙 and    runs of     spaces\tand tabs.", "1024 3.14159",
        "\\n\\x00", "🦙🦙",
    "The quick brown fox jumps over the lazy dog", "\ufeffa", "[PAD1] the", "<unk> </s>"]


TEXTS_AHEAD = TEXTS + [
    "the<|plamo:tag|>the", "<|plamo:|> a", "<|plamo:a b|>", "<|plamo:" + 64 * "a" + "|>", "<|plamo:" + 65 * "a" + "|>",
    "<|plamo:x<|plamo:x|>", "aaa aaaa aaaaa", "a    b  c", "\n\n\n\n\n", "the\ue00f\uee00the\uee00", "<|plamo:begin_tool:plamo|>",
    "aaaa<|plamo:tag|>aaaa    ", " a\n b\n\n  c\u2581d", "\u2581\u2581a \u2581", "a \n", "नमस्ते क्\u200dष न\u200cम", "e\u0301'\u017f 'S '\u212a",
    "1234567 ४५६७", "a\u0301\u0301 \u0301 .\u0301a"]


def load(bindings: Path, libraries: Path):
    os.environ["LLAMA_CPP_LIB_PATH"] = str(libraries)
    package = types.ModuleType("llama_cpp")
    package.__path__ = [str(bindings)]
    sys.modules["llama_cpp"] = package
    from importlib import import_module
    return import_module("llama_cpp.llama_cpp")


def ids_by_library(llama, path: Path, texts: list) -> list:
    """Lines of ids by `llama_tokenize`."""
    params = llama.llama_model_default_params()
    params.vocab_only = True
    model = llama.llama_model_load_from_file(str(path).encode(), params)
    vocab = llama.llama_model_get_vocab(model)
    lines = []
    for text in texts:
        data, room = text.encode(), (llama.llama_token * 512)()
        n = llama.llama_tokenize(vocab, data, len(data), room, 512, False, False)
        assert n >= 0, text
        lines.append(" ".join(map(str, room[:n])))
    llama.llama_model_free(model)
    return lines


def make(ctx) -> None:
    import gguf
    is_ahead = "ahead" in ctx.inputs
    if not is_ahead:
        llama = load(ctx.input("bindings"), ctx.libraries)
        llama.llama_backend_init()
    write_keys = gguf.GGUFWriter
    for name in AHEAD if is_ahead else NAMES:
        folder, path = ctx.tokenizer(name), ctx.golden / "tokenizer-pairs" / f"own-{name}.gguf"
        kept = []

        class Keeping(write_keys):
            def __init__(self, *positional, **named):
                super().__init__(*positional, **named)
                kept.append(self)

        gguf.GGUFWriter = Keeping
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        tokenizer.reference_listing(folder, expected["route"], expected["pre"])
        gguf.GGUFWriter = write_keys
        writer = write_keys(path, "llama")
        for key, item in kept[0].kv_data[0].items():
            if key.startswith("tokenizer.ggml."):
                writer.add_key_value(key, item.value, item.type, item.sub_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        texts, inputs = TEXTS_AHEAD if is_ahead else TEXTS, path.with_suffix(".gguf.inp")
        inputs.write_text("\n__ggml_vocab_test__\n".join(texts), encoding="utf-8")
        if is_ahead:
            ran = subprocess.run([ctx.input("tokenize"), path, inputs], check=True, stdout=subprocess.PIPE, text=True)
            lines = [line.strip() for line in ran.stdout.splitlines()]
        else:
            lines = ids_by_library(llama, path, texts)
        path.with_suffix(".gguf.out").write_text("".join(f" {line}\n" for line in lines), encoding="utf-8")
        print(name, path.stat().st_size)

