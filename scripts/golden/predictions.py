"""The files of golden/logits: which tokens a model is shown, which positions are kept, and how they are written."""

import json

import numpy as np


def tokens_of(config):
    """32 seeded tokens of a vocabulary, or more where that shows what a window leaves out."""
    config = config.get("text_config", config)
    if config.get("model_type") == "whisper":
        n = min(32, config["max_target_positions"])
        return np.random.default_rng(20261121).integers(3, config["vocab_size"], n).tolist()
    # Some grow with each context of the first training that a position is behind.
    scaling = config.get("rope_parameters") or {}
    grows = "llama_4_scaling_beta" in scaling and scaling["original_max_position_embeddings"] <= 64
    is_short = (config.get("sliding_window") or 0) in range(1, 65) or "index_block_size" in config
    n = 96 if grows or is_short else 32
    tokens = np.random.default_rng(20261121).integers(3, config.get("vocab_size", 256), n).tolist()
    # Tokens that select built-in adapters.
    for i, token in enumerate(config.get("adapter_token_ids", ())):
        tokens[5 + 12 * i] = token
    return tokens


def positions_of(tokens):
    """Positions whose predictions are kept: more at the beginning, the last, and some behind a window."""
    if len(tokens) < 32:
        return [0, 1, 2, 3, 7, 11, 15, len(tokens) - 1]
    return [0, 1, 2, 3, 7, 15, 23, 31] if len(tokens) == 32 else [0, 3, 31, 63, 64, 65, 79, 95]


def write(out, name, tokens, logits, more=None, tail=b""):
    """NAME.bin of all rows; `more` is what its first line says beside the usual, `tail` what follows the rows."""
    positions = positions_of(tokens)
    head = dict(tokens=tokens, positions=positions, n_vocab=logits.shape[1], range=float(logits.max() - logits.min()))
    rows = logits[positions].astype("<f4").tobytes()
    (out / f"{name}.bin").write_bytes(json.dumps(head | (more or {})).encode() + b"\n" + rows + tail)
