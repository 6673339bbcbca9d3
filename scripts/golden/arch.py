"""Makes golden/arch/: tiny checkpoints (of llama here, of other families in families*.py) and what the reference
converter makes of them; golden/arch-tokenizers/, which they share; and golden/cli/two-step.txt, whole files of the
main one.

Needs torch, transformers, safetensors, sentencepiece and tokenizers. A checkpoint has the names, shapes and config
that transformers writes, and the seeded weights of checkpoint.py. `expected.json` of a checkpoint lists, in the order
of the reference's file:

  metadata  [key, type, value], long arrays as {"len": n, "sha256": of the bytes in the file}
  tensors   [name, shape (row length first), {outtype: [dtype, sha256 of the data]}]; bf16 only where it differs from
  f32 file_name {outtype: name that the reference gives when the output is a folder}
"""

import contextlib
import io
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import checkpoint
from families import FAMILIES, SMALL
from families_encoders import ENCODERS, TOKENIZERS
from families_hybrids import HYBRIDS
from families_giants import EXTRA as EXTRA_GIANTS, GIANTS
from families_houses import EXTRA as HOUSES_EXTRA, HOUSES, KINDS, as_it_can
from families_moe import EXTRA, MOE
from families_old import OLD_SPELLINGS
from families_spec import SPEC
from families_wrappers import WRAPPERS
from lib import GOLDEN, TEXT, seed_of, sha256, sha256_of_file

BASE = dict(vocab_size=384, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
            bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=128)

# Name -> what is asked of transformers. Keys: model (llama, mistral, mixtral), config (over BASE),
# tokenizer (spm, bpe), old (config.json as the Hub has it, over what transformers wrote), drop (keys
# taken out of config.json), card, generation, extra (tensors put beside the model's), max_shard_size.
CHECKPOINTS = {
    "llama": dict(config=dict(hidden_size=256, intermediate_size=512)),
    "llama-llama3": dict(tokenizer="bpe", config=dict(
        rope_parameters=dict(rope_theta=500000.0, **LLAMA3), max_position_embeddings=1024, head_dim=32)),
    "llama-llama3-old": dict(tokenizer="bpe", old=dict(
        rope_theta=500000.0, rope_scaling=LLAMA3, torch_dtype="bfloat16", transformers_version="4.43.0",
        max_position_embeddings=2048)),
    "llama-linear": dict(config=dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0))),
    "llama-linear-old": dict(old=dict(rope_theta=20000, rope_scaling=dict(type="linear", factor=2),
                                      torch_dtype="float16", _name_or_path="some-org/Tiny-Model-0.1M-chat")),
    "llama-dynamic": dict(config=dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0))),
    "llama-yarn": dict(config=dict(max_position_embeddings=2048, rope_parameters=dict(
        rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=512,
        beta_fast=32.0, beta_slow=1.0, attention_factor=0.7))),
    "llama-yarn-old": dict(old=dict(rope_theta=10000.0, rope_scaling=dict(
        type="yarn", factor=16.0, finetuned=True), torch_dtype="bfloat16")),
    "llama-bias": dict(config=dict(attention_bias=True, mlp_bias=True)),
    "llama-head-dim": dict(config=dict(head_dim=24)),
    "llama-mha": dict(config=dict(num_key_value_heads=4)),
    "llama-tied": dict(tokenizer="bpe", config=dict(tie_word_embeddings=True)),
    "llama-tied-both": dict(config=dict(tie_word_embeddings=True), extra="lm_head"),
    "llama-inv-freq": dict(extra="inv_freq", old=dict(torch_dtype="float32")),
    "llama-defaults": dict(drop=("rope_parameters", "num_key_value_heads", "head_dim", "rms_norm_eps",
                                 "max_position_embeddings", "model_type", "tie_word_embeddings"),
                           config=dict(num_key_value_heads=4), old=dict(model_type="llama")),
    "llama-sharded": dict(max_shard_size="60KB"),
    "llama-card": dict(card="""---
language:
- en
- no
- "de"
license: other
license_name: tiny-licence
license_link: https://example.org/LICENCE
library_name: transformers
pipeline_tag: text-generation
tags:
- tiny
- noise
model_name: Tiny Card Model
model_creator: Somebody
version: v1.2
base_model:
- some-org/Tiny-Llama-7B-v1.0
- https://huggingface.co/Other-Org/big-model-chat
- https://example.org/elsewhere/model
datasets:
- some-org/pretty-data-v2
- https://huggingface.co/datasets/org/data
- wikitext
---

# Tiny

Noise.
""", generation=dict(temperature=0.6, top_p=0.9, top_k=40, repetition_penalty=1.1, min_p=0.05)),
    "llama-2-7b-chat-v0.3-noise": dict(
        card="---\nlicense: [mit, apache-2.0]\nlanguage: fr\ntags: one\nbase_model: lone-model\n"
             "datasets: []\n---\n"),
    "mistral": dict(model="mistral", config=dict(sliding_window=128)),
    "mistral-old": dict(model="mistral", drop=("head_dim", "num_key_value_heads"),
                        config=dict(num_attention_heads=8, num_key_value_heads=8, hidden_size=64),
                        old=dict(rope_theta=1000000.0, torch_dtype="bfloat16", sliding_window=None,
                                 _name_or_path="Mistral-Tiny-Instruct-v0.2")),
    "mixtral": dict(model="mixtral", config=dict(num_local_experts=4, num_experts_per_tok=2)),
    "mixtral-old": dict(model="mixtral", old=dict(rope_theta=100000.0, torch_dtype="bfloat16"),
                        config=dict(num_local_experts=3, num_experts_per_tok=1)),
}

FAMILIES |= MOE | ENCODERS | SPEC | WRAPPERS | HYBRIDS | GIANTS | HOUSES | OLD_SPELLINGS
EXTRA |= EXTRA_GIANTS | HOUSES_EXTRA
TOKENIZERS |= KINDS
CHECKPOINTS |= FAMILIES

# What the reference's two steps are run for, with the main checkpoint.
TWO_STEP = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m",
            "q5_k_s", "q5_k_m", "q6_k", "f16", "f32", "bf16"]


def make_spm(folder: Path, vocab_size: int, spec: dict) -> None:
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=model, vocab_size=vocab_size, model_type="bpe",
        byte_fallback=True, character_coverage=0.99, normalization_rule_name="identity", unk_id=0, bos_id=1, eos_id=2,
            pad_id=-1,
        num_threads=1, minloglevel=2)
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    token = lambda text: dict(content=text, lstrip=False, rstrip=False, normalized=False, single_word=False,
        special=True)
    config = dict(add_bos_token=True, add_eos_token=False, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                  added_tokens_decoder={"0": token("<unk>"), "1": token("<s>"), "2": token("</s>")},
                  legacy=False, model_max_length=512, tokenizer_class="LlamaTokenizer",
                  chat_template="{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}",
                  **spec.get("tokenizer_config", {}))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_bpe(folder: Path, vocab_size: int, spec: dict) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|unk|>", "<|begin|>", "<|end|>", *spec.get("special", ())]
    tokenizer.train_from_iterator(TEXT * 4, trainers.BpeTrainer(
        vocab_size=vocab_size - 4, special_tokens=specials, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = dict(bos_token="<|begin|>", eos_token="<|end|>", unk_token="<|unk|>", model_max_length=512,
                  tokenizer_class="PreTrainedTokenizerFast",
                  chat_template="{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}")
    config |= spec.get("tokenizer_config", {})
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def make_world(folder: Path, vocab_size: int, spec: dict) -> None:
    """RWKV's vocabulary: every byte, then some longer words. One that ends early is filled up."""
    words = sorted({word for line in TEXT for word in line.split() if len(word) > 1})
    lines = [f"{i + 1} {bytes([i])!r} 1" for i in range(256)]
    lines += [f"{i + 257} {word!r} {len(word)}" for i, word in enumerate(words[:vocab_size - 270])]
    (folder / "rwkv_vocab_v20230424.txt").write_text("\n".join(lines) + "\n")
    # Else the reference takes a template from a folder of its own.
    config = dict(chat_template="{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n\n{% endfor %}")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def for_reference(folder: Path, spec: dict, scratch: Path) -> Path:
    """The checkpoint as the reference is given it: the same folder, unless it stops on that."""
    if not (spec.get("reference") or spec.get("without") or spec.get("given_as")):
        return folder
    from safetensors.torch import load_file, save_file
    copy = scratch / folder.name
    shutil.copytree(folder, copy)
    written = json.loads((copy / "config.json").read_text()) | spec.get("reference", {}).get("set", {})
    for key in spec.get("reference", {}).get("drop", ()):
        written.pop(key, None)
    (copy / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
    if without := spec.get("without"):
        tensors = {name: value for name, value in load_file(copy / "model.safetensors").items()
            if not name.endswith(without)}
        save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    # The same weights in the Hub's layout, where the reference reads that alone.
    if given_as := spec.get("given_as"):
        tensors = EXTRA[given_as](load_file(copy / "model.safetensors"), None)
        save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


def tokenizer_name(vocab_size: int, spec: dict) -> str:
    """The folder of golden/arch-tokenizers that a family takes its tokenizer from."""
    kind = spec.get("tokenizer", "spm")
    if kind == "unigram":
        return "unigram-t5" if spec["model"] == "t5" else "unigram-xlmr"
    if kind == "unigram_json":
        return "unigram-json"
    special = ["".join(filter(str.isalnum, token)) for token in spec.get("special", ())]
    return "-".join([kind, str(vocab_size), *special])


def make_tokenizer(folder: Path, vocab_size: int, spec: dict) -> str:
    """The tokenizer, and whatever other files there are; the name of the tokenizer.

    One that golden/arch-tokenizers has is taken from there, because not every trainer gives the same twice: remove the
    folder to train it anew."""
    kind, name = spec.get("tokenizer", "spm"), tokenizer_name(vocab_size, spec)
    (dict(spm=make_spm, bpe=make_bpe, world=make_world) | TOKENIZERS)[kind](folder, vocab_size, spec)
    for path in (GOLDEN / "arch-tokenizers" / name).glob("*"):
        if path.name != "tokenizer_config.json":
            shutil.copy(path, folder)
    for module, shape in spec.get("dense", {}).items():
        import torch
        from safetensors.torch import save_file
        (folder / module).mkdir(exist_ok=True)
        (folder / module / "config.json").write_text(json.dumps(dict(in_features=shape[1], out_features=shape[0],
            bias=False, activation_function="torch.nn.modules.linear.Identity"), indent=2) + "\n")
        save_file({"linear.weight": torch.randn(shape) * 0.05}, folder / module / "model.safetensors",
            metadata={"format": "pt"})
    for file, content in spec.get("files", {}).items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(content, indent=2) + "\n")
    return name


def blank(text: str):
    """A tensor of what `VALUES SHAPE DTYPE` says, before it gets its values."""
    import torch
    _, shape, dtype = (text.split(" ") + ["BF16"])[:3]
    kinds = dict(BF16=torch.bfloat16, F32=torch.float32, I64=torch.int64, I32=torch.int32, U8=torch.uint8, I8=torch.int8,
                 F8_E4M3=torch.float8_e4m3fn, F8_E8M0=torch.float8_e8m0fnu)
    return torch.zeros([int(n) for n in shape.split("x") if n != "-"], dtype=kinds[dtype])


def kinds_of(spec: dict) -> dict:
    """The values of the tensors of which a family says them."""
    shapes = spec.get("hand", {})
    shapes = shapes(spec["config"]) if callable(shapes) else shapes
    return {name: shape.split(" ")[0] for name, shape in shapes.items() if isinstance(shape, str)}


def make_checkpoint(name: str, spec: dict, folder: Path) -> str:
    """Writes a checkpoint, with any weights; the name of its tokenizer."""
    import torch
    from safetensors.torch import load_file, save_file
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    torch.manual_seed(seed_of(name))
    if "hand" in spec:
        rename = spec.get("rename", {})
        written = {rename.get(key, key): value for key, value in spec["config"].items()
            if key not in spec.get("remove", ())}
        shapes = spec["hand"]
        shapes = shapes(spec["config"]) if callable(shapes) else shapes
        save_file({key: blank(shape) if isinstance(shape, str) else
                   (torch.randn(shape) * 0.05 + (1.0 if "norm" in key else 0.0)).to(torch.bfloat16)
                   for key, shape in shapes.items()}, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
        for copy, other in spec.get("same", {}).items():
            tensors = load_file(folder / "model.safetensors")
            save_file(tensors | {copy: tensors[other].clone()}, folder / "model.safetensors",
                metadata={"format": "pt"})
        vocab_size = spec.get("vocab_size") or (SMALL["vocab_size"] if name in SPEC else spec["config"].get(
            "text_config", spec["config"])["vocab_size"])
        return make_tokenizer(folder, vocab_size, spec)
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    base = SMALL if name in FAMILIES else BASE
    config_class = CONFIG_MAPPING[spec.get("model", "llama")]
    config = config_class(**{**({} if spec.get("bare") else base), **spec.get("config", {})})
    if "class" in spec:
        model = getattr(transformers, spec["class"])(config)
    else:
        model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in parameter_name else 0.0
            parameter.normal_(centre, 0.05)
    model = model.to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size=spec.get("max_shard_size", "1GB"))
    (folder / "generation_config.json").unlink(missing_ok=True)

    weights = folder / "model.safetensors"
    if spec.get("stacked"):
        # What the model itself holds, before transformers takes it apart on saving.
        state = {key: value.clone() for key, value in model.state_dict().items()
                 if key != "lm_head.weight" or not config.tie_word_embeddings}
        save_file(state, weights, metadata={"format": "pt"})
    if extra := spec.get("extra"):
        tensors = load_file(weights)
        if extra == "lm_head":
            tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        elif extra == "inv_freq":
            for layer in range(config.num_hidden_layers):
                tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = torch.arange(8, dtype=torch.float32)
        elif extra == "proj_out":
            tensors["proj_out.weight"] = tensors["model.decoder.embed_tokens.weight"].clone()
        elif extra == "embed_tokens":
            for part in ("encoder", "decoder"):
                tensors[f"{part}.embed_tokens.weight"] = tensors["shared.weight"].clone()
        else:
            tensors = EXTRA[extra](tensors, config)
        save_file(tensors, weights, metadata={"format": "pt"})
    if rename := spec.get("tensor_names"):
        tensors = load_file(weights)
        for old_name, new_name in rename:
            tensors = {name.replace(old_name, new_name): tensor for name, tensor in tensors.items()}
        save_file(tensors, weights, metadata={"format": "pt"})

    path = folder / "config.json"
    written = json.loads(path.read_text())
    for key in spec.get("drop", ()):
        written.pop(key, None)
    if old := spec.get("old"):
        # The spelling of the Hub before transformers 5: flat rope keys, torch_dtype.
        for key in ("rope_parameters", "dtype"):
            written.pop(key, None)
        written.update(old)
    if old_text := spec.get("old_text"):
        for key in ("rope_parameters", "dtype"):
            written["text_config"].pop(key, None)
        written["text_config"].update(old_text)
    written.update(spec.get("more", {}))
    if images := spec.get("images"):
        written = dict(images, text_config=written, **{key: written.pop(key)
            for key in ("torch_dtype", "transformers_version") if key in written})
        written["text_config"].pop("architectures", None)
    path.write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")

    tokenizer = make_tokenizer(folder, spec.get("vocab_size") or config.get_text_config().vocab_size, spec)
    if card := spec.get("card"):
        (folder / "README.md").write_text(card)
    if generation := spec.get("generation"):
        (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    return tokenizer


@contextlib.contextmanager
def as_it_stands(spec: dict):
    """Lets the reference read config.json without the config class of transformers, where the family says so, and
    without a question to the tokenizer that transformers 5 answers wrongly."""
    import conversion.base
    from conversion.deepseek import DeepseekV32Model
    kept = conversion.base.AutoConfig, DeepseekV32Model.set_vocab
    if spec.get("raw_config"):
        conversion.base.AutoConfig = None
    if spec.get("adds_bos"):
        DeepseekV32Model.set_vocab = lambda model: model._set_vocab_gpt2()
    try:
        yield
    finally:
        conversion.base.AutoConfig, DeepseekV32Model.set_vocab = kept


def convert(folder: Path, out: Path, outtype: str, pre: str, given: dict, hand: str | None = None,
            prediction: str | None = None, **options) -> Path:
    """Runs the reference converter in this process; its tokenizer hash list is bypassed with `pre`.

    `prediction` is `only` or `without` for `--mtp` and `--no-mtp`. `given` are keys of an older config.json that it insists
    on and transformers does not write; `hand` names a converter of by_hand.py; `options` are the reference's own."""
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    file_type = dict(f32=gguf.LlamaFileType.ALL_F32, f16=gguf.LlamaFileType.MOSTLY_F16,
                     bf16=gguf.LlamaFileType.MOSTLY_BF16, q8_0=gguf.LlamaFileType.MOSTLY_Q8_0)[outtype]
    with torch.inference_mode():
        config = ModelBase.load_hparams(folder, False)
        if hand:
            from by_hand import CLASSES
            model_class = CLASSES[hand]
        else:
            model_class = get_model_class(get_model_architecture(config, ModelType.TEXT))
        # Without this flag the reference insists on layers that transformers does not save.
        model_class.no_mtp = not any(part in path.read_bytes() for part in (b"mtp.layers", b"eh_proj")
            for path in folder.glob("*.safetensors")) or prediction == "without"
        model_class.mtp_only = prediction == "only"
        # Lists of the class, which every model of a process adds to.
        for name, empty in (("module_paths", []), ("dense_features_dims", {})):
            if hasattr(model_class, name):
                setattr(model_class, name, empty)
        model = model_class(folder, file_type, out, hparams={**config, **given} if given else None, **options)
        # Mistral 3 hands everything to a model inside of it.
        for part in (model, getattr(model, "impl", model)):
            part.get_vocab_base_pre = lambda tokenizer: pre
        # RWKV's converters share this among all models of a process.
        model.lerp_weights = {}
        if model_class.__name__ == "BaichuanModel":
            # It calls itself without end on every tensor but the fused one; its base class is meant.
            own = model_class.modify_tensors
            model.modify_tensors = lambda data, name, bid: (
                own(model, data, name, bid) if "W_pack" in name
                else super(model_class, model).modify_tensors(data, name, bid))
        if model_class.__name__ == "StableLMModel":
            # It returns the stack of norms from a generator, where nobody takes it.
            stacking = model.modify_tensors

            def modify(data, name, bid):
                stack = yield from stacking(data, name, bid)
                yield from stack or ()
            model.modify_tensors = modify
        model.write()
    return getattr(model, "impl", model).fname_out


def listing(path: Path) -> tuple[list, list]:
    """Reads a little-endian GGUF file by its specification."""
    data = memoryview(path.read_bytes())
    names = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"]
    formats = dict(u8="B", i8="b", u16="H", i16="h", u32="I", i32="i", f32="f", bool="?", u64="Q", i64="q", f64="d")
    at = 0

    def take(code):
        nonlocal at
        value = struct.unpack_from("<" + code, data, at)[0]
        at += struct.calcsize("<" + code)
        return value

    def text():
        nonlocal at
        length = take("Q")
        at += length
        return bytes(data[at - length:at]).decode("utf-8")

    def scalar(kind):
        return text() if kind == "str" else take(formats[kind])

    assert bytes(data[:4]) == b"GGUF"
    at = 4
    assert take("I") == 3
    n_tensors, n_keys = take("Q"), take("Q")
    metadata = []
    for _ in range(n_keys):
        key, kind = text(), names[take("I")]
        if kind != "arr":
            metadata.append([key, kind, scalar(kind)])
            continue
        inner, length = names[take("I")], take("Q")
        start = at
        values = [scalar(inner) for _ in range(length)]
        # JSON has no number for these.
        values = [str(value) if value in (float("inf"), float("-inf")) else value for value in values]
        if length > 16:
            values = dict(len=length, sha256=sha256(data[start:at]))
        metadata.append([key, f"arr[{inner}]", values])
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    infos = []
    for _ in range(n_tensors):
        name, n_dims = text(), take("I")
        shape = [take("Q") for _ in range(n_dims)]
        infos.append((name, shape, GGMLQuantizationType(take("I")), take("Q")))
    start = (at + 31) // 32 * 32
    tensors = []
    for name, shape, dtype, offset in infos:
        elements = 1
        for n in shape:
            elements *= n
        block, size = GGML_QUANT_SIZES[dtype]
        body = data[start + offset:start + offset + elements // block * size]
        tensors.append((name, shape, dtype.name.lower(), sha256(body)))
    return metadata, tensors


def expect(folder: Path, pre: str, spec: dict, out: Path) -> None:
    """Writes what the reference makes of a checkpoint."""
    metadata, tensors, file_names = None, {}, {}
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as copies, as_it_stands(spec):
        given = spec.get("given", {})
        copy = for_reference(folder, spec, Path(copies))
        target = dict(target_model_dir=checkpoint.whole(spec["target"], GOLDEN, Path(copies) / "target")) \
            if "target" in spec else {}
        for outtype in ("f32", "bf16"):
            with as_it_can(spec, copy):
                path = convert(copy, Path(scratch), outtype, pre, given, spec.get("expect"), spec.get("prediction"),
                               **target, **spec.get("options", {}))
            file_names[outtype] = path.name
            have, listed = listing(path)
            if metadata is None:
                metadata = have
            else:
                differing = [key for (key, *a), (_, *b) in zip(metadata, have, strict=True) if a != b]
                assert differing in (["general.file_type"], []), differing
            for name, shape, dtype, digest in listed:
                tensors.setdefault(name, [shape, {}])[1][outtype] = [dtype, digest]
    for _, digests in tensors.values():
        if digests["bf16"] == digests["f32"]:
            del digests["bf16"]
    lines = ['{', '  "pre": %s,' % json.dumps(pre), *(['  "given": %s,' % json.dumps(given)] if given else []),
        *(['  "%s": %s,' % (key, json.dumps(spec[key])) for key in ("target", "prediction", "options") if key in spec]),
        '  "outtype_of_metadata": "f32",',
             '  "file_name": %s,' % json.dumps(file_names), '  "metadata": [']
    lines.append(",\n".join("    " + json.dumps(entry, ensure_ascii=False) for entry in metadata))
    lines += ['  ],', '  "tensors": [']
    lines.append(",\n".join("    " + json.dumps([name, *rest]) for name, rest in tensors.items()))
    lines += ['  ]', '}']
    out.write_text("\n".join(lines) + "\n")


def two_step(folder: Path, quantize: Path, out: Path) -> None:
    """Hashes of whole files: the converter alone, and the converter at bf16 followed by llama-quantize."""
    lines = ["# golden/arch/llama: steps, file type, bytes, sha256 of the whole file"]
    with tempfile.TemporaryDirectory() as scratch:
        base = None
        for outtype in ("f32", "f16", "bf16", "q8_0"):
            path = convert(folder, Path(scratch) / f"{outtype}.gguf", outtype, "default", {})
            lines.append(f"convert {outtype} {path.stat().st_size} {sha256_of_file(path)}")
            base = path if outtype == "bf16" else base
        for name in TWO_STEP:
            path = Path(scratch) / f"two-{name}.gguf"
            subprocess.run([quantize, base, path, name, "1"], check=True, capture_output=True)
            lines.append(f"convert+quantize {name} {path.stat().st_size} {sha256_of_file(path)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines) + "\n")


def make(ctx) -> None:
    """With `--input keep=1` the checkpoints that are there stay, and the expectations alone are made."""
    failed = []
    for name, spec in CHECKPOINTS.items():
        if not ctx.wants(name):
            continue
        if "keep" in ctx.inputs:
            folder = ctx.checkpoint(name)
        else:
            folder = ctx.scratch / "arch" / name
            tokenizer = make_checkpoint(name, spec, folder)
            if name in checkpoint.STORED:
                shutil.copytree(folder, ctx.golden / "arch" / name, dirs_exist_ok=True)
            else:
                files = checkpoint.seed_weights(folder, seed_of(name), kinds_of(spec))
                checkpoint.store(folder, seed_of(name), files, tokenizer, "tokenizer_config" in spec, ctx.golden)
        try:
            pre = dict(bpe="llama-bpe", wordpiece="jina-v2-en", qwen_tiktoken="qwen2").get(spec.get("tokenizer"), "default")
            expect(folder, pre, spec, ctx.golden / "arch" / name / "expected.json")
        except Exception as error:
            print(f"{name}: the reference fails: {error!r}", file=sys.stderr)
            failed.append(name)
            continue
        print(name)
        if name == "llama" and ctx.build:
            two_step(folder, ctx.program("llama-quantize"), ctx.golden / "cli" / "two-step.txt")
    if failed:
        raise SystemExit(f"the reference fails on {failed}")
