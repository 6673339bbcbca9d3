"""Makes pairs as the reference's tokenizer tests have them, for kinds of vocabularies that those lack.

The keys of a folder of golden/tokenizer, as the reference's converter makes them, are written by
its GGUFWriter and read by its llama_tokenize. Same files as tokenizer_pairs.py: NAME.gguf, .inp
with the texts, .out with their ids. `--input bindings=` names the folder `llama_cpp` of llama-cpp-python, for its
ctypes.
"""

import json
import os
import sys
import types
from pathlib import Path

import tokenizer

NAMES = ["plamo2", "rwkv-world", "unigram-t5", "gemma4"]
TEXTS = [
    "", "a", " a", "  a b ", "the", "the the", " a a", "日本", "日本語 é", "\n\n", "a\n\n\nb", "éé e\u0301",
        "x\u2581x \u2581x", "it's '\"", "привет ab",
    "Größe, façade, naïve, Ωmega,日本語, привет, emoji 🦙 and    runs of     spaces\tand tabs.", "1024 3.14159",
        "\\n\\x00", "🦙🦙",
    "The quick brown fox jumps over the lazy dog", "\ufeffa", "[PAD1] the", "<unk> </s>"]


def load(bindings: Path, libraries: Path):
    os.environ["LLAMA_CPP_LIB_PATH"] = str(libraries)
    package = types.ModuleType("llama_cpp")
    package.__path__ = [str(bindings)]
    sys.modules["llama_cpp"] = package
    from importlib import import_module
    return import_module("llama_cpp.llama_cpp")


def make(ctx) -> None:
    import gguf
    llama = load(ctx.input("bindings"), ctx.libraries)
    llama.llama_backend_init()
    write_keys = gguf.GGUFWriter
    for name in NAMES:
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
        params = llama.llama_model_default_params()
        params.vocab_only = True
        model = llama.llama_model_load_from_file(str(path).encode(), params)
        vocab = llama.llama_model_get_vocab(model)
        lines = []
        for text in TEXTS:
            data, room = text.encode(), (llama.llama_token * 512)()
            n = llama.llama_tokenize(vocab, data, len(data), room, 512, False, False)
            assert n >= 0, (name, text)
            lines.append(" ".join(map(str, room[:n])))
        llama.llama_model_free(model)
        path.with_suffix(".gguf.inp").write_text("\n__ggml_vocab_test__\n".join(TEXTS), encoding="utf-8")
        path.with_suffix(".gguf.out").write_text("".join(f" {line}\n" for line in lines), encoding="utf-8")
        print(name, path.stat().st_size)

