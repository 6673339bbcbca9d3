#!/usr/bin/env python3
"""Makes golden/cli/vocab-only.txt: what `convert_hf_to_gguf.py --vocab-only` writes for checkpoints of golden/arch.

usage: vocab_only.py --reference DIR GOLDEN [NAME ...]

  --reference DIR   root of the llama.cpp tree
  GOLDEN            the golden folder; without names, every checkpoint whose expected.json is there

Each line: name of the checkpoint, file name, bytes, sha256 of the whole file. The type is what the
reference guesses of the weights (`--outtype auto`). As in arch.py, `get_vocab_base_pre` gives what
expected.json states, for a list of hashes cannot know a tiny tokenizer.
"""

import argparse
import hashlib
import json
import logging
import sys
import tempfile
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("golden", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    sys.path.insert(0, str(args.reference))
    sys.path.insert(1, str(args.reference / "gguf-py"))
    logging.basicConfig(level=logging.ERROR)
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    folders = sorted(path.parent for path in (args.golden / "arch").glob("*/expected.json"))
    lines = ["# checkpoint of golden/arch, file name, bytes, sha256 of the whole file"]
    for folder in folders:
        if args.names and folder.name not in args.names:
            continue
        pre = json.loads((folder / "expected.json").read_text())["pre"]
        with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
            config = ModelBase.load_hparams(folder, False)
            model_class = get_model_class(get_model_architecture(config, ModelType.TEXT))
            model = model_class(folder, gguf.LlamaFileType.GUESSED, Path(scratch))
            model.get_vocab_base_pre = lambda tokenizer: pre
            model.write_vocab()
            data = model.fname_out.read_bytes()
            lines.append(f"{folder.name} {model.fname_out.name} {len(data)} {hashlib.sha256(data).hexdigest()}")
    (args.golden / "cli" / "vocab-only.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
