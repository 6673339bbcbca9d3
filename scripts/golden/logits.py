"""Makes golden/logits/: what transformers predicts with the tiny checkpoints of golden/arch.

Needs torch, transformers, safetensors. 32 seeded tokens, or 96 where there are short windows, go through the model in
f32. NAME.bin is a line of JSON (tokens, positions, n_vocab, range: largest less smallest of all rows) and then f32,
little-endian, row-major: (positions, n_vocab). Where the line says "hidden", rows are those of the last
layer, and n_vocab is their width; encoders with decoders read the tokens and write them again. Where
it says "pooled", one more row of "pooled_width" follows: what the checkpoint's own 1_Pooling/config.json and N_Dense,
as sentence-transformers has them, make of the rows (of each of them for "none"), or the scores of its classifier ("rank"), with
"pooled_range" from the smallest to the largest, zero among them. Where it says "features" (bands,
frames), those f32 follow at the end: the seeded spectrogram that a model of sound heard before the tokens,
which are at most as many as it has positions for.

LOGITS of the families' golden.py (families.py) has checkpoints that are not run in the usual way: None if there is no
golden, or a dict of

  by       the maker: `reference` (logits_reference.py) or `rwkv` (logits_rwkv.py, with `names` and `switches`)
  hidden   true if `reference` writes rows of the last layer instead of logits, for an encoder
  config   keys to set, if the file cannot state them and the reference assumes a value for the whole family
  prepare  a function that changes the loaded model
  output   the matrix of the checkpoint that the pooled row is multiplied by
  spelled  a function from config and tensors to a spelling that transformers reads
  run      a function from folder and tokens to rows, whether they are hidden states, and scores of a classifier or None,
           for models that transformers has no class for
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import logits_own
from families import ENCODER_TYPES, LOGITS, LOGITS_FILES, TOWER_TYPES
from predictions import tokens_of, write

# The weights of tiny checkpoints are small: what they hear is loud, so that it shows in what they predict.
LOUDNESS = 8.0
# Parts of names of tensors that a checkpoint may lack, because it is run on text only.
TOWERS = ("merger", "projector", "vision", "visual", "vit")
# What sentence-transformers calls ways of pooling, and what the file does.
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "last"}
POOLING_MODES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}


def features_of(config):
    """A seeded spectrogram (bands, frames) of the only length that a model of sound takes; none for others."""
    if config["model_type"] != "whisper":
        return None
    shape = config["num_mel_bins"], 2 * config["max_source_positions"]
    return np.random.default_rng(20261122).normal(0, LOUDNESS, shape).astype("<f4")


def class_of(folder):
    """The name of a class of transformers, and whether its rows are hidden ones."""
    config = json.loads((folder / "config.json").read_text())
    architecture = config["architectures"][0]
    if architecture.endswith("ForSequenceClassification"):
        return "AutoModelForSequenceClassification", True
    if architecture == "T5EncoderModel":
        return architecture, True
    if config["model_type"] == "t5":
        return "AutoModelForSeq2SeqLM", False
    if config["model_type"] == "whisper":
        return "AutoModelForSpeechSeq2Seq", False
    if config["model_type"] in TOWER_TYPES:
        return "AutoModelForImageTextToText", False
    is_hidden = config["model_type"] in ENCODER_TYPES or architecture == "Lfm2Model" or (folder / "1_Pooling").exists()
    return "AutoModel" if is_hidden else "AutoModelForCausalLM", is_hidden


def pooling(folder):
    """How rows become one, where the checkpoint says so."""
    path = folder / "1_Pooling" / "config.json"
    if not path.exists():
        return None
    config = json.loads(path.read_text())
    if "pooling_mode" in config:
        return POOLING_MODES[config["pooling_mode"]]
    return next(how for key, how in POOLINGS.items() if config.get(key))


def pool(rows, how):
    return {"mean": lambda: rows.astype(np.float64).mean(0), "cls": lambda: rows[0], "last": lambda: rows[-1]}[how]()


def spelled(folder, scratch):
    """The folder, or a copy in a spelling that transformers reads of checkpoints that it does not load as they are."""
    if "spelled" not in (special := LOGITS.get(folder.name, {})):
        return folder
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    config, tensors = special["spelled"](config, tensors)
    copy = Path(scratch) / folder.name
    copy.mkdir()
    (copy / "config.json").write_text(json.dumps(config))
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


def load(folder, name):
    config, special = transformers.AutoConfig.from_pretrained(folder), LOGITS.get(folder.name, {})
    for key, value in special.get("config", {}).items():
        assert hasattr(config, key), key
        setattr(config, key, {**getattr(config, key), **value} if isinstance(value, dict) else value)
    model, info = getattr(transformers, name).from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    missing = [key for key in info["missing_keys"] if not any(part in key for part in ("pooler", *TOWERS))]
    if missing:
        raise ValueError(f"transformers finds no {sorted(missing)}")
    if "prepare" in special:
        special["prepare"](model)
    return model.eval()


def run(folder, tokens):
    """Rows (tokens, n) in f32, whether they are hidden ones, and the scores of a classifier or none."""
    if "run" in (special := LOGITS.get(folder.name, {})):
        return special["run"](folder, tokens)
    name, is_hidden = class_of(folder)
    model, ids = load(folder, name), torch.tensor([tokens])
    if name == "AutoModelForSequenceClassification":
        return model.base_model(ids).last_hidden_state[0].numpy(), True, model(ids).logits[0].numpy()
    if name == "AutoModelForSpeechSeq2Seq":
        heard = torch.from_numpy(features_of(model.config.to_dict()))[None]
        return model(heard, decoder_input_ids=ids, use_cache=False).logits[0].numpy(), False, None
    if name == "AutoModelForSeq2SeqLM":
        behind = torch.tensor([[model.config.decoder_start_token_id] + tokens[:-1]])
        return model(ids, decoder_input_ids=behind, use_cache=False).logits[0].numpy(), False, None
    if is_hidden:
        return model(ids).last_hidden_state[0].numpy(), True, None
    return model(ids, use_cache=False).logits[0].float().numpy(), False, None


def make(ctx):
    transformers.utils.logging.set_verbosity_error()
    others = {name for name, special in LOGITS.items() if special is None or "by" in special} | LOGITS_FILES.keys()
    for name in ctx.checkpoint_names():
        # Not every checkpoint of the converter has a graph yet: the first time a golden is asked for by name.
        is_new = not (ctx.golden / "logits" / f"{name}.bin").exists()
        if name in others or not ctx.wants(name) or (is_new and not ctx.only):
            continue
        folder = ctx.checkpoint(name)
        config = json.loads((folder / "config.json").read_text())
        tokens, features = tokens_of(config), features_of(config)
        with torch.no_grad(), tempfile.TemporaryDirectory() as scratch:
            logits, is_hidden, scores = run(spelled(folder, scratch), tokens)
        assert np.isfinite(logits).all(), name
        more, tail = {"hidden": True} if is_hidden else {}, b""
        how = "rank" if scores is not None else pooling(folder)
        row = scores if scores is not None else pool(logits, how)[None] if how else logits
        behind = None if scores is not None else logits_own.dense(folder, row, LOGITS.get(name, {}).get("output"))
        if behind is not None:
            row, how = behind, how or "none"
        if how:
            row = row.reshape(-1)
            more |= dict(pooled=how, pooled_width=len(row), pooled_range=float(max(row.max(), 0) - min(row.min(), 0)))
            tail += row.astype("<f4").tobytes()
        if features is not None:
            more["features"] = features.shape
            tail += features.tobytes()
        write(ctx.golden / "logits", name, tokens, logits, more, tail)
