"""Keys of a recipe, and the configs and shapes that recipes of several model families share.

A recipe is a dict that describes a tiny checkpoint; the golden.py of each family has its own (families.py). transformers
makes the checkpoint from `model`, `class` and `config`. For a model that transformers does not have, `hand` states names
and shapes. Keys:

  model      model_type of transformers
  class      the class of transformers, if the config does not determine it
  config     arguments of the config class, over SMALL
  bare       `config` is not laid over SMALL
  hand       shapes by name, or a function from `config` to them; a shape may also be the text `VALUES SHAPE DTYPE` of
             checkpoint.py
  rename     with `hand`: keys of `config` that have other names in config.json
  remove     with `hand`: keys of `config` that are not in config.json
  without_config  with `hand`: the checkpoint has no config.json
  same       with `hand`: tensors that equal another, by name
  tokenizer  a kind of tiny_tokenizers.py or of the family's TOKENIZERS; spm by default
  special    further special tokens of a byte-level tokenizer
  tokenizer_config  keys of tokenizer_config.json
  tokenizer_folder  folder of the tokenizer; the config is then in the folder `encoder`
  vocab_size  of the tokenizer, if it differs from the config's or the config has it in an unusual place
  files      further files of the folder: name -> JSON, or text that is written unchanged
  parts      further weights: folder, or file, -> shapes by name, as in `hand`
  dense      dense layers of sentence-transformers: folder -> shape
  card, generation  README.md and generation_config.json
  max_shard_size  of the files that transformers writes
  whole      the golden keeps the weights

Changes of what transformers writes:

  stacked    experts as the classes of transformers 5 hold them, not as they save them
  extra      a function from tensors and config to other tensors
  tensor_names  replacements in the names of tensors: [(from, to)]
  drop       keys to remove from config.json
  old        keys of config.json in the Hub's spelling before transformers 5; `old_text` is the same for text_config
  more       further keys of config.json
  images     config.json of a wrapper whose text_config is the config that transformers wrote

For the reference only:

  reference  changes of config.json, if the reference stops on what transformers 5 writes: dict(set, drop)
  without    endings of names of tensors to leave out, because the reference stops on them
  given_as   a function as in `extra`: the Hub's layout of the weights, if the reference reads no other
  given      keys of an older config.json that it requires
  expect     a function that returns a converter, if the reference has none (by_hand.py)
  raw_config  it reads config.json without transformers' config class, which would remove keys that it needs
  patches    a function from the folder to patches (unittest.mock) of the reference while it runs
  prediction  `only` or `without`: its option for layers of multi-token prediction
  ahead      True if only a newer tree than the pinned one has the model (`--input ahead=1`)
  target     the golden that is the target of a draft model (`--target-model-dir`)
  options    further options of its converter
"""

import importlib
from unittest import mock

from tiny_parts import indexer, prediction, weights

# Base configs. Widths differ from each other, so that a shape identifies its dimensions.
SMALL = dict(vocab_size=384, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
BASE = dict(vocab_size=384, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2)
TINY = dict(hidden_size=16, intermediate_size=24)
NARROW = dict(TINY, vocab_size=288)
TEXT = dict(SMALL, intermediate_size=48)
# The Hub's spelling of configs before transformers 5.
OLD = dict(torch_dtype="bfloat16", transformers_version="4.43.0")
OLD_ENCODER = dict(torch_dtype="float32", transformers_version="4.6.1", gradient_checkpointing=False)
# Configs of models whose code is in their repository.
HAND = dict(TEXT, torch_dtype="bfloat16", rms_norm_eps=1e-6, tie_word_embeddings=False)
HUB = dict(TEXT, **OLD)
NARROW_HAND = dict(NARROW, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0, torch_dtype="bfloat16",
    rms_norm_eps=1e-6, moe_intermediate_size=12, num_experts_per_tok=2, tie_word_embeddings=False)
END = dict(vocab_size=384, bos_token_id=1, eos_token_id=2)

# Rotations.
FACTORS = dict(short_factor=[1.0, 1.25], long_factor=[1.0, 4.5])
LLAMA3 = dict(rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=128)
ROPE3 = dict(rope_type="default", rope_theta=1000000.0, mrope_section=[2, 1, 1])
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128, beta_fast=32.0,
    beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)
ROPE_OF_IMAGES = dict(rope_type="default", mrope_section=[2, 1, 1])
ROPE35 = dict(rope_type="default", rope_theta=10000000.0, partial_rotary_factor=0.5, mrope_section=[1, 1, 0],
    mrope_interleaved=True)

# Parts of configs: latent attention, an indexer of sparse attention, experts, state spaces of 4 heads of 16 in 2 groups, linear
# attention of Qwen 3.5.
LATENT = dict(kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=10,
    n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=24, num_key_value_heads=4, num_hidden_layers=3)
INDEXER = dict(index_n_heads=2, index_head_dim=16, index_topk=8)
FEW = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24)
MAMBA = dict(mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=8, mamba_d_head=16, mamba_d_conv=4, mamba_expand=2)
QWEN35 = dict(head_dim=8, num_hidden_layers=4, linear_key_head_dim=4, linear_value_head_dim=8, linear_num_key_heads=2,
    linear_num_value_heads=6, linear_conv_kernel_dim=4)

# For some model types transformers makes a tokenizer of Qwen's class with further tokens; this key prevents it.
AS_IT_IS = dict(tokenizer_config=dict(auto_map=dict(AutoTokenizer=["tokenization.Own", None])))
# PaddleOCR-VL and HunyuanOCR on the Hub have the keys of the text part at the top.
FLAT = dict(OLD, **TEXT, hidden_act="silu", rms_norm_eps=1e-05)

# Sizes for rows of 256 (wide.py): latent attention, experts, every text model.
WIDE_LATENT = dict(moe_intermediate_size=256, kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
    num_key_value_heads=4)
WIDE_EXPERTS = dict(head_dim=64, moe_intermediate_size=256)
WIDE_TEXT = dict(hidden_size=256, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2)


def plain(**spec) -> dict:
    """A recipe with the config of BASE; the model is llama by default."""
    return {"model": "llama"} | spec | dict(bare=True, config=BASE | spec.get("config", {}))


def tiny(**spec) -> dict:
    """A recipe with the widths of TINY and the vocabulary of its tokenizer by default."""
    tokens = dict(vocab_size=288 if spec.get("tokenizer") == "bpe" else 384)
    config = spec.get("config", {})
    if "hand" not in spec:
        return spec | dict(config=TINY | tokens | config)
    return spec | dict(config=tokens | config if "text_config" in config else config | tokens)


def wrapper(model: str, name: str, text: dict, more: dict = {}, **parts) -> dict:
    """A recipe of a multimodal model with this text_config; `more` are further keys of the recipe."""
    return dict({"model": model, "class": name, "bare": True, "tokenizer": "bpe",
                 "config": dict(text_config=dict(TEXT, **text), **parts)}, **more)


def with_tokenizer(make):
    """Patches for a tokenizer that AutoTokenizer does not read, because it needs code or a config class that is missing.
    `make` returns the tokenizer of a folder."""
    def patches(folder) -> list:
        import transformers
        return [mock.patch.object(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: make(folder))]
    return patches


def fast_tokenizer(folder):
    import transformers
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder)


def gpt2_vocab(module: str, name: str):
    """Patches for a class of the reference that is to read tokenizer.json as byte-level BPE."""
    def patches(_) -> list:
        converter = getattr(importlib.import_module(f"conversion.{module}"), name)
        return [mock.patch.object(converter, "set_vocab", converter._set_vocab_gpt2)]
    return patches


def predictions(name: str, spec: dict) -> dict:
    """Two more recipes: without the layers of multi-token prediction, and with these only."""
    return {f"{name}-{asked}": dict(spec, prediction=asked) for asked in ("only", "without")}


def narrow_hub(architecture: str, model_type: str, **more) -> dict:
    """A config.json in the Hub's spelling with the widths of TINY, for a model whose code is in the repository."""
    return {**SMALL, "hidden_size": 16, "intermediate_size": 24, "architectures": [architecture],
        "model_type": model_type,
            "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5, **more}


def hub(architecture: str, model_type: str, **more) -> dict:
    """A config.json in the Hub's spelling, for a model whose code is in the repository."""
    return dict(HUB, architectures=[architecture], model_type=model_type, **more)


def few(n_experts: str = "num_experts", **more) -> dict:
    """A config with a few small experts."""
    return dict(NARROW, num_experts_per_tok=2, **{n_experts: 4}, **more)


def pooling(width: int = 32, **how) -> dict:
    """The files of sentence-transformers for a way of pooling."""
    return {"modules.json": [
        dict(idx=0, name="0", path="", type="sentence_transformers.models.Transformer"),
        dict(idx=1, name="1", path="1_Pooling", type="sentence_transformers.models.Pooling")],
        "1_Pooling/config.json": dict(word_embedding_dimension=width, **how)}


MEAN = pooling(pooling_mode_cls_token=False, pooling_mode_mean_tokens=True)
# The last token's vector is that of the text.
POOLING = pooling(16, pooling_mode_cls_token=False, pooling_mode_lasttoken=True)


def layers(config: dict, names: dict) -> dict:
    """The tensors of every layer; `{}` stands for its number."""
    return {name.format(i): shape for i in range(config["num_hidden_layers"]) for name, shape in names.items()}


def stack(names: dict, n: int = 2) -> dict:
    """The tensors of n layers; `{}` stands for the number of each."""
    return layers(dict(num_hidden_layers=n), names)


def norms(*names: str) -> dict:
    return {f"{name}.{part}": [32] for name in names for part in ("weight", "bias")}


def sizes(config: dict) -> tuple[int, int, int, int, int]:
    """Vocabulary, width, width of the feed-forward part, of queries, of keys."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    head = config.get("head_dim", width // heads)
    return config["vocab_size"], width, config["intermediate_size"], heads * head, config.get("num_key_value_heads",
        heads) * head


def llama_like(config: dict, fused: str = "", start: str = "model.", bias: bool = False,
    fused_mlp: bool = False) -> dict:
    """Tensors with the names of llama. `fused` is the name of the matrix of queries, keys and values, if they are one."""
    v, h, f, q, k = sizes(config)
    names = {"self_attn.q_proj.weight": [q, h], "self_attn.k_proj.weight": [k, h], "self_attn.v_proj.weight": [k, h]}
    if fused:
        names = {f"self_attn.{fused}.weight": [q + 2 * k, h]}
    names |= {"self_attn.o_proj.weight": [h, q], "mlp.down_proj.weight": [h, f], "input_layernorm.weight": [h],
              "post_attention_layernorm.weight": [h]}
    names |= {"mlp.up_gate_proj.weight": [2 * f, h]} if fused_mlp else {"mlp.gate_proj.weight": [f, h],
        "mlp.up_proj.weight": [f, h]}
    if bias:
        names |= {"input_layernorm.bias": [h], "post_attention_layernorm.bias": [h]}
    ends = {start + "norm.bias": [h]} if bias else {}
    return {start + "embed_tokens.weight": [v, h],
            **layers(config, {start + "layers.{}." + name: shape for name, shape in names.items()}),
            start + "norm.weight": [h], **ends, "lm_head.weight": [v, h]}


def with_norms(config: dict) -> dict:
    """A llama with norms of queries and keys."""
    norms = {f"model.layers.{{}}.self_attn.{x}_norm.weight": [config["head_dim"]] for x in "qk"}
    return llama_like(config) | layers(config, norms)


def mixtures(names: str = "gate_proj up_proj down_proj", part: str = "mlp", router: str = "gate", small: int = 0,
            norms: bool = True, length: str = "moe_intermediate_size", count: str = "num_experts"):
    """A llama with experts; with `small`, each pair of experts has another one with that many rows."""

    def shapes(config: dict) -> dict:
        base = with_norms(config) if norms else llama_like(config)
        h, f, layer = config["hidden_size"], config[length], {}
        gate, up, down = names.split()
        parts = {f"{part}.experts.{x}": f for x in range(config[count])}
        parts |= {f"{part}.chunk_experts.{x}": small for x in range(config[count] // 2 if small else 0)}
        for name, rows in parts.items():
            layer |= {f"{name}.{gate}": [rows, h], f"{name}.{up}": [rows, h], f"{name}.{down}": [h, rows]}
        layer |= {f"{part}.{router}": [config[count], h]}
        return {name: shape for name, shape in base.items() if ".mlp." not in name} | layers(
            config, {f"model.layers.{{}}.{name}.weight": shape for name, shape in layer.items()})
    return shapes


def by_layer(i: int, attention: dict, mixture: bool, shared: int) -> dict:
    """The tensors of a layer, dense or a mixture of four experts of 12 rows."""
    names = {"input_layernorm": [16], "post_attention_layernorm": [16], **attention}
    parts = {"mlp": 24}
    if mixture:
        names["mlp.gate"] = [4, 16]
        parts = {f"mlp.experts.{x}": 12 for x in range(4)} | {"mlp.shared_experts": shared}
    for part, rows in parts.items():
        names |= {f"{part}.gate_proj": [rows, 16], f"{part}.up_proj": [rows, 16], f"{part}.down_proj": [16, rows]}
    return {f"model.layers.{i}.{name}.weight": shape for name, shape in names.items()}


def with_lm_head(tensors: dict, config) -> dict:
    """Adds the embedding as the output matrix."""
    return tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}


def one_more_layer(tensors: dict, config, own: dict) -> dict:
    """Adds a copy of the last layer, which has tensors of its own with these shapes."""
    import torch
    last = config.num_hidden_layers
    copies = {name.replace(f"layers.{last - 1}.", f"layers.{last}."): tensor.clone()
              for name, tensor in tensors.items() if f"layers.{last - 1}." in name}
    return tensors | copies | {f"model.layers.{last}.{name}": torch.ones(shape, dtype=torch.bfloat16)
                               for name, shape in own.items()}


def text_tensors(tensors: dict, _) -> dict:
    """The text part of a wrapper, named as a model of its own."""
    text = {name.replace("language_model.", "").replace("text_model.", ""): tensor for name, tensor in tensors.items()
            if name == "lm_head.weight" or "language_model." in name or "text_model." in name}
    return {name.replace("model.model.", "model."): tensor for name, tensor in text.items()}


def with_nextn(tensors: dict, config) -> dict:
    """Adds a layer that predicts the token after the next, as published checkpoints have."""
    return one_more_layer(tensors, config, weights(
        eh_proj=[16, 32], enorm=[16], hnorm=[16], shared_head__norm=[16], embed_tokens=[4, 16]))


def with_indexed_nextn(tensors: dict, config) -> dict:
    """Adds such a layer with an indexer."""
    return one_more_layer(tensors, config, prediction() | indexer())


def after_last(**parts):
    """A function that adds such a layer with tensors named as in `weights`; shapes are in multiples of the width."""
    return lambda tensors, config: one_more_layer(tensors, config, weights(
        **{name: [n * config.hidden_size for n in shape] for name, shape in parts.items()}))
