#!/usr/bin/env python3
"""Makes pairs as the reference's tokenizer tests have them, for kinds of vocabularies that those lack.

usage: tokenizer_own_pairs.py --reference DIR --bindings DIR --libraries DIR TOKENIZERS OUT

  --reference DIR   root of the llama.cpp tree
  --bindings DIR    the folder `llama_cpp` of llama-cpp-python, for its ctypes
  --libraries DIR   where libllama.so is
  TOKENIZERS        golden/tokenizer
  OUT               golden/tokenizer-pairs

The keys of a folder of golden/tokenizer, as the reference's converter makes them, are written by
its GGUFWriter and read by its llama_tokenize. Same files as tokenizer_pairs.py: NAME.gguf, .inp
with the texts, .out with their ids.
"""

import argparse
import json
import os
import sys
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import tokenizer  # noqa: E402

NAMES = ["plamo2", "rwkv-world", "unigram-t5", "gemma4"]
TEXTS = [
    "", "a", " a", "  a b ", "the", "the the", " a a", "日本", "日本語 é", "\n\n", "a\n\n\nb", "éé e\u0301", "x\u2581x \u2581x", "it's '\"", "привет ab",
    "Größe, façade, naïve, Ωmega,日本語, привет, emoji 🦙 and    runs of     spaces\tand tabs.", "1024 3.14159", "\\n\\x00", "🦙🦙",
    "The quick brown fox jumps over the lazy dog", "\ufeffa", "[PAD1] the", "<unk> </s>"]


def load(bindings: Path, libraries: Path):
    os.environ["LLAMA_CPP_LIB_PATH"] = str(libraries)
    package = types.ModuleType("llama_cpp")
    package.__path__ = [str(bindings)]
    sys.modules["llama_cpp"] = package
    from importlib import import_module
    return import_module("llama_cpp.llama_cpp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("reference", "bindings", "libraries"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("tokenizers", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    sys.path.insert(0, str(args.reference))
    sys.path.insert(1, str(args.reference / "gguf-py"))
    import gguf
    llama = load(args.bindings, args.libraries)
    llama.llama_backend_init()
    write_keys = gguf.GGUFWriter
    for name in NAMES:
        folder, path = args.tokenizers / name, args.out / f"own-{name}.gguf"
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


if __name__ == "__main__":
    main()
