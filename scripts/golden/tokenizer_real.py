#!/usr/bin/env python3
"""Compares our tokenizer keys with the reference's for real tokenizers, and prints a table.

usage: tokenizer_real.py --reference DIR --ours BIN FOLDER ...

  --reference DIR   root of the llama.cpp tree
  --ours BIN        the example `vocab` of crates/arch (cargo build -p arch --example vocab)
  FOLDER            holds tokenizer files, in itself or in `models/`

Folders without config.json are copied and get one that says little more than a vocabulary size.
Columns: tokens, route, whether the reference names the pre-tokenizer by itself (else its function
is replaced by our name), keys that differ, our seconds, our notes on the pre-tokenizer, and
whether the hash of the test text, as the onig build of tokenizers gives it, is ours.
"""

import argparse
import hashlib
import json
import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from tokenizer import reference_listing  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("folder", type=Path, nargs="+")
    args = parser.parse_args()
    sys.path.insert(0, str(args.reference))
    sys.path.insert(1, str(args.reference / "gguf-py"))
    logging.disable(logging.WARNING)
    text = (Path(__file__).parents[2] / "crates/arch/src/vocab/pre/test_text.txt").read_bytes().decode()
    print("| tokenizer | tokens | route | reference's pre | ours | keys differing | s | onig hash equal |")
    print("|---|---|---|---|---|---|---|---|")
    for source in args.folder:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / source.name
            shutil.copytree(source / "models" if (source / "models").is_dir() else source, folder)
            tokenizer = json.loads((folder / "tokenizer.json").read_text()) if (folder / "tokenizer.json").is_file() else None
            route = "llama"
            settings = json.loads((folder / "tokenizer_config.json").read_text())
            if not (folder / "config.json").is_file():
                ids = [*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"])]
                config = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=max(ids) + 1)
                if settings.get("tokenizer_class") in ("GPT2Tokenizer", "Qwen2Tokenizer", "CohereTokenizer"):
                    route = "gpt2"
                (folder / "config.json").write_text(json.dumps(config))
            ran = subprocess.run([args.ours, folder, route], capture_output=True, text=True)
            if ran.returncode != 0:
                print(f"| {source.name} | | {route} | | {ran.stderr.strip().splitlines()[-1]} | | | |", flush=True)
                continue
            ours = [json.loads(line) for line in ran.stdout.splitlines()]
            own = dict((key, value) for key, _, value in ours)
            seconds = ran.stderr.split()[1]
            own_pre = own["tokenizer.ggml.pre"]
            own_way = next((line.split(": ")[1][:14] for line in ran.stderr.splitlines() if "pre-tokenizer `" in line), "")
            try:
                theirs, named = reference_listing(folder, route, None), "by itself"
            except NotImplementedError:
                theirs, named = reference_listing(folder, route, own_pre), "unknown to it"
            except Exception as error:
                theirs, named = [], f"fails: {error!r}"[:60]
            differing = [a[0] for a, b in zip(ours, theirs) if a != b] + ["length"] * (len(ours) != len(theirs))
            equal = ""
            if tokenizer and "token hash" in ran.stderr:
                from tokenizers import Tokenizer
                ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
                bare = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids
                bos = [t["id"] for t in tokenizer["added_tokens"] if t["content"] == settings.get("bos_token")]
                digests = [hashlib.sha256(str(i).encode()).hexdigest() for i in (ids, bare, bos + bare)]
                equal = "yes" if any(d in ran.stderr for d in digests) else "no"
            print(f"| {source.name} | {own['tokenizer.ggml.tokens']['len']} | {route} | {named} | {own_pre} {own_way} | "
                  f"{len(differing)} {' '.join(differing)} | {seconds} | {equal} |", flush=True)


if __name__ == "__main__":
    main()
