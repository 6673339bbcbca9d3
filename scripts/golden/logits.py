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
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import jina_bert
import logits_own
import logits_reference
import logits_rwkv
from predictions import tokens_of, write

# What no key of the file can say and the reference takes to be thus, for every model of the family; the base that
# transformers itself does not find (dbrx).
AS_THE_FILE_MEANS = {
    # The part that is rotated is in `rope_parameters` here, where the reference does not look.
    "bamba": dict(rope_parameters=dict(partial_rotary_factor=1.0)),
    "afmoe": dict(mup_enabled=True),
    "dbrx": dict(rope_parameters=dict(rope_theta=500000.0)),
    "dbrx-old": dict(rope_parameters=dict(rope_theta=500000.0)),
    "falcon-rw": dict(alibi=False),
    "falcon-h1": dict(mamba_norm_before_gate=False),
    # The reference writes no output matrix where it is the embedding, which has a multiplier of its own.
    "falcon-h1-old": dict(lm_head_multiplier=5.656854249492381),
    "falcon-mamba": dict(mixer_rms_eps=1e-5),
    "gemma2-old": dict(query_pre_attn_scalar=8),
    "gemma-embedding": dict(query_pre_attn_scalar=8),
    "gemma-embedding-dense": dict(query_pre_attn_scalar=8),
    "gemma3": dict(query_pre_attn_scalar=8),
    "gemma3-images": dict(query_pre_attn_scalar=8),
    "gemma3-old": dict(query_pre_attn_scalar=8),
    # llama.cpp rounds the range over which YaRN blends frequencies.
    "gpt-oss": dict(rope_parameters=dict(truncate=True)),
    "gpt-oss-mxfp4": dict(rope_parameters=dict(truncate=True)),
    "gpt-oss-mxfp4-old": dict(rope_parameters=dict(truncate=True)),
    # Without state spaces it is written as rotated, whatever its config says.
    "granite4-dense": dict(position_embedding_type="rope"),
    "granite4-moe": dict(position_embedding_type="rope"),
    "phimoe": dict(rope_parameters=dict(short_mscale=1.5 ** 0.5)),
    "phimoe-old": dict(rope_parameters=dict(short_mscale=1.5 ** 0.5)),
    "qwen3moe": dict(norm_topk_prob=True),
    "qwen3moe-old": dict(norm_topk_prob=True),
    "qwen3moe-stacked": dict(norm_topk_prob=True),
    # Without an output matrix of its own it has that of the embedding, and is scaled as the first T5 are.
    "t5-gated-old": dict(scale_decoder_outputs=True),
}
# transformers does not read the names of these; with others it is golden/logits/mamba.bin and mamba2.bin.
WITHOUT = ("mamba-old", "mamba-untied", "mamba2-codestral")
# The weights of tiny checkpoints are small: what they hear is loud, so that it shows in what they predict.
LOUDNESS = 8.0
# Types of models whose rows are what is wanted.
ENCODERS = {"bert", "distilbert", "eurobert", "roberta", "xlm-roberta", "nomic_bert", "modernbert"}
# Types of models with a tower beside the text part, whose rotations have positions for pictures too. They are run whole,
# on text alone; towers that a checkpoint lacks may hold what they like.
WITH_TOWERS = {"exaone4_5", "glm4v", "glm4v_moe", "glm_ocr", "hunyuan_vl", "minicpmv4_6", "mistral3", "qwen2_5_vl", "qwen2_vl",
               "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"}
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
    if config["model_type"] in WITH_TOWERS:
        return "AutoModelForImageTextToText", False
    is_hidden = config["model_type"] in ENCODERS or architecture == "Lfm2Model" or (folder / "1_Pooling").exists()
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
    if folder.name not in SPELLINGS:
        return folder
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    config, tensors = SPELLINGS[folder.name](config, tensors)
    copy = Path(scratch) / folder.name
    copy.mkdir()
    (copy / "config.json").write_text(json.dumps(config))
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


def split_pack(config, tensors):
    """Baichuan of 7 billion is Llama with its projections in one."""
    split = {}
    for name, tensor in tensors.items():
        parts = tensor.chunk(3) if "W_pack" in name else [tensor]
        names = [name.replace("W_pack", f"{x}_proj") for x in "qkv"] if "W_pack" in name else [name]
        split |= {name: part.clone() for name, part in zip(names, parts, strict=True)}
    length = config.pop("model_max_length")
    return config | dict(architectures=["LlamaForCausalLM"], model_type="llama", max_position_embeddings=length), split


# Baidu's own names for Ernie; the text part of Gemma 3 alone; Phi 3's length beside the factors, where transformers 5
# looks for it.
SPELLINGS = {
    "baichuan": split_pack,
    # Falcon's first name. libllama takes its GELU from a table of f16, which is too coarse to compare with.
    "falcon-old": lambda config, tensors: (config | dict(
        architectures=["FalconForCausalLM"], model_type="falcon", num_attention_heads=config["n_head"],
        num_hidden_layers=config["n_layer"]), tensors),
    "ernie4_5-moe-old": lambda config, tensors: (config, {
        name.replace("ernie.", "model.", 1): tensor for name, tensor in tensors.items() if ".mtp_" not in name}),
    "gemma3-images": lambda config, tensors: (config["text_config"] | dict(architectures=["Gemma3ForCausalLM"]), {
        name.replace("language_model.", ""): tensor for name, tensor in tensors.items() if "language_model." in name}),
    "phi3-su-old": lambda config, tensors: (config | dict(rope_scaling=config["rope_scaling"] | dict(
        original_max_position_embeddings=config["original_max_position_embeddings"])), tensors),
    # The class empties the row of the padding token when it has read it.
    "youtu": lambda config, tensors: (config | dict(pad_token_id=None), tensors),
    **logits_own.SPELLINGS,
}


def load(folder, name):
    config = transformers.AutoConfig.from_pretrained(folder)
    for key, value in AS_THE_FILE_MEANS.get(folder.name, {}).items():
        assert hasattr(config, key), key
        setattr(config, key, {**getattr(config, key), **value} if isinstance(value, dict) else value)
    model, info = getattr(transformers, name).from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    missing = [key for key in info["missing_keys"] if not any(part in key for part in ("pooler", *TOWERS))]
    if missing:
        raise ValueError(f"transformers finds no {sorted(missing)}")
    if config.model_type == "mpt":
        # transformers knows this key and leaves it aside.
        largest, build = config.attn_config.alibi_bias_max, model.transformer.build_mpt_alibi_tensor
        model.transformer.build_mpt_alibi_tensor = lambda *args, device: build(*args, largest, device)
    return model.eval()


def run(folder, tokens):
    """Rows (tokens, n) in f32, whether they are hidden ones, and the scores of a classifier or none."""
    if folder.name.startswith("jina-bert-v2"):
        return jina_bert.hidden(folder, tokens).numpy(), True, None
    if folder.name in logits_own.OWN:
        return logits_own.OWN[folder.name](folder, tokens)
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
    others = {*logits_reference.CHECKPOINTS, *logits_rwkv.CHECKPOINTS, *WITHOUT}
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
        behind = None if scores is not None else logits_own.dense(folder, row)
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
