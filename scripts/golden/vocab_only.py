"""Makes golden/cli/vocab-only.txt: what `convert_hf_to_gguf.py --vocab-only` writes for checkpoints of golden/arch.

Each line: name of the checkpoint, file name, bytes, sha256 of the whole file. The type is what the
reference guesses of the weights (`--outtype auto`). As in arch.py, `get_vocab_base_pre` gives what
expected.json states, for a list of hashes cannot know a tiny tokenizer.
"""

import json
import tempfile
from pathlib import Path

from lib import sha256

# Tied or not, with either kind of tokenizer, and with names that say much.
CHECKPOINTS = (
    "llama", "llama-2-7b-chat-v0.3-noise", "llama-card", "llama-llama3", "llama-tied", "mistral", "mixtral-old")


def make(ctx) -> None:
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    lines = ["# checkpoint of golden/arch, file name, bytes, sha256 of the whole file"]
    for name in filter(ctx.wants, CHECKPOINTS):
        folder = ctx.checkpoint(name)
        pre = json.loads((ctx.golden / "arch" / name / "expected.json").read_text())["pre"]
        with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
            config = ModelBase.load_hparams(folder, False)
            model_class = get_model_class(get_model_architecture(config, ModelType.TEXT))
            model = model_class(folder, gguf.LlamaFileType.GUESSED, Path(scratch))
            model.get_vocab_base_pre = lambda tokenizer: pre
            model.write_vocab()
            data = model.fname_out.read_bytes()
            lines.append(f"{folder.name} {model.fname_out.name} {len(data)} {sha256(data)}")
    (ctx.golden / "cli" / "vocab-only.txt").write_text("\n".join(lines) + "\n")
