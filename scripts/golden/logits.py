#!/usr/bin/env python3
"""Makes golden/logits/: what transformers predicts with the tiny checkpoints of golden/arch.

usage: logits.py ARCH_FOLDER OUT [NAME ...]

  ARCH_FOLDER   golden/arch: a folder for each checkpoint
  OUT           golden/logits
  NAME          folders to do; all by default

Needs torch, transformers, safetensors. 32 seeded tokens go through the model in f32. OUT/NAME.bin is a
line of JSON (tokens, positions, n_vocab, range: largest less smallest of all 32 rows; for encoders
n_vocab is the width of a row) and then f32, little-endian, row-major: (positions, n_vocab).
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

POSITIONS = [0, 1, 2, 3, 7, 15, 23, 31]
# What no key of the file can say and the reference takes to be thus, for every model of the family.
AS_THE_FILE_MEANS = {
    "gemma2-old": dict(query_pre_attn_scalar=8),
    "gemma3": dict(query_pre_attn_scalar=8),
    "gemma3-old": dict(query_pre_attn_scalar=8),
    "qwen3moe": dict(norm_topk_prob=True),
    "qwen3moe-old": dict(norm_topk_prob=True),
}


def rows(folder, tokens):
    """(32, n_vocab) in f32."""
    config = transformers.AutoConfig.from_pretrained(folder)
    for key, value in AS_THE_FILE_MEANS.get(folder.name, {}).items():
        assert hasattr(config, key), key
        setattr(config, key, value)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    if info["missing_keys"]:
        raise ValueError(f"transformers finds no {sorted(info['missing_keys'])}")
    model.eval()
    with torch.no_grad():
        return model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()


def main():
    arch, out = Path(sys.argv[1]), Path(sys.argv[2])
    names = sys.argv[3:] or sorted(p.name for p in arch.iterdir() if (p / "config.json").exists())
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        config = json.loads((arch / name / "config.json").read_text())
        n_vocab = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size", 256)
        tokens = np.random.default_rng(20261121).integers(3, n_vocab, 32).tolist()
        try:
            logits = rows(arch / name, tokens)
        except Exception as error:  # A checkpoint that transformers itself does not load is no golden.
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:160]}", file=sys.stderr)
            continue
        if not np.isfinite(logits).all():
            print(f"{name}: not finite", file=sys.stderr)
            continue
        head = dict(tokens=tokens, positions=POSITIONS, n_vocab=logits.shape[1],
                    range=float(logits.max() - logits.min()))
        data = logits[POSITIONS].astype("<f4").tobytes()
        (out / f"{name}.bin").write_bytes(json.dumps(head).encode() + b"\n" + data)


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    main()
