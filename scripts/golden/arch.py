"""Makes golden/arch/: tiny checkpoints by the recipes of the families (families.py) and what the reference
converter makes of them; golden/arch-tokenizers/, which they share; and golden/cli/two-step.txt, whole files of the
main one.

Needs torch, transformers, safetensors, sentencepiece and tokenizers. A checkpoint has the names, shapes and config
that transformers writes, and the seeded weights of checkpoint.py. `expected.json` of a checkpoint lists, in the order
of the reference's file:

  metadata  [key, type, value], long arrays as {"len": n, "sha256": of the bytes in the file}
  tensors   [name, shape (row length first), {outtype: [dtype, sha256 of the data]}]; bf16 only if it differs
            from f32
  file_name {outtype: name that the reference gives when the output is a folder}
"""

import contextlib
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import checkpoint
import tiny_tokenizers
from families import CHECKPOINTS, TOKENIZERS
from lib import GOLDEN, seed_of, sha256, sha256_of_file
from tiny_models import SMALL

# What the reference's two steps are run for, with the main checkpoint.
TWO_STEP = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m",
            "q5_k_s", "q5_k_m", "q6_k", "f16", "f32", "bf16"]


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
        tensors = given_as(load_file(copy / "model.safetensors"), None)
        save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


def tokenizer_name(vocab_size: int, spec: dict) -> str:
    """The folder of golden/arch-tokenizers that a family takes its tokenizer from."""
    kind = spec.get("tokenizer", "spm")
    if kind.startswith("unigram"):
        return kind
    special = ["".join(filter(str.isalnum, token)) for token in spec.get("special", ())]
    return "-".join([kind, str(vocab_size), *special])


def make_tokenizer(folder: Path, vocab_size: int, spec: dict) -> str:
    """The tokenizer, and whatever other files there are; the name of the tokenizer.

    One that golden/arch-tokenizers has is taken from there, because not every trainer gives the same twice: remove the
    folder to train it anew."""
    kind, name = spec.get("tokenizer", "spm"), tokenizer_name(vocab_size, spec)
    (tiny_tokenizers.KINDS | TOKENIZERS)[kind](folder, vocab_size, spec)
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
    for module, shapes in spec.get("parts", {}).items():
        path = folder / module if module.endswith(".safetensors") else folder / module / "model.safetensors"
        path.parent.mkdir(exist_ok=True)
        write_by_hand(shapes, path)
    for file, content in spec.get("files", {}).items():
        (folder / file).parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        (folder / file).write_text(text)
    return name


def into_folders(folder: Path, tokenizer: str) -> None:
    """Moves the tokenizer into a folder of this name, and the config into `encoder`."""
    files = [path for path in folder.iterdir() if checkpoint.is_tokenizer_file(path.name)]
    for path, place in [(folder / "config.json", "encoder"), *((path, tokenizer) for path in files)]:
        (folder / place).mkdir(exist_ok=True)
        path.rename(folder / place / path.name)


def blank(text: str):
    """A tensor of what `VALUES SHAPE DTYPE` says, before it gets its values."""
    import torch
    _, shape, dtype = (text.split(" ") + ["BF16"])[:3]
    kinds = dict(BF16=torch.bfloat16, F16=torch.float16, F32=torch.float32, I64=torch.int64, I32=torch.int32,
                 U8=torch.uint8, I8=torch.int8, F8_E4M3=torch.float8_e4m3fn, F8_E8M0=torch.float8_e8m0fnu)
    return torch.zeros([int(n) for n in shape.split("x") if n != "-"], dtype=kinds[dtype])


def shapes_of(spec: dict) -> dict:
    """The tensors that `hand` states."""
    shapes = spec.get("hand", {})
    return shapes(spec["config"]) if callable(shapes) else shapes


def kinds_of(spec: dict) -> dict:
    """The kinds of values of those tensors whose recipe states one."""
    shapes = {name: shape for part in spec.get("parts", {}).values() for name, shape in part.items()} | shapes_of(spec)
    return {name: shape.split(" ")[0] for name, shape in shapes.items() if isinstance(shape, str)}


def write_by_hand(shapes: dict, path: Path) -> None:
    """Writes tensors with these shapes, with any values."""
    import torch
    from safetensors.torch import save_file
    save_file({key: blank(shape) if isinstance(shape, str) else
               (torch.randn(shape) * 0.05 + (1.0 if "norm" in key else 0.0)).to(torch.bfloat16)
               for key, shape in shapes.items()}, path, metadata={"format": "pt"})


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
        write_by_hand(shapes_of(spec), folder / "model.safetensors")
        if not spec.get("without_config"):
            (folder / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
        for copy, other in spec.get("same", {}).items():
            tensors = load_file(folder / "model.safetensors")
            save_file(tensors | {copy: tensors[other].clone()}, folder / "model.safetensors",
                metadata={"format": "pt"})
        text = spec["config"].get("text_config", spec["config"])
        return make_tokenizer(folder, spec.get("vocab_size") or text["vocab_size"], spec)
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    config = CONFIG_MAPPING[spec["model"]](**({} if spec.get("bare") else SMALL) | spec.get("config", {}))
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
        save_file(extra(load_file(weights), config), weights, metadata={"format": "pt"})
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
def patched(spec: dict, folder: Path):
    """The reference with the patches that it needs for a checkpoint."""
    import conversion.base
    from gguf.tensor_mapping import TensorNameMap
    # Some architectures write names of their own into the table of all.
    patches = [mock.patch.dict(TensorNameMap.block_mappings_cfg)]
    if spec.get("raw_config"):
        patches.append(mock.patch.object(conversion.base, "AutoConfig", None))
    if make_patches := spec.get("patches"):
        patches += make_patches(folder)
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def convert(folder: Path, out: Path, outtype: str, pre: str, spec: dict, **options) -> Path:
    """Runs the reference converter in this process; its tokenizer hash list is bypassed with `pre`.

    `spec` is a recipe, or {} for a checkpoint that needs nothing of its own; `options` are the reference's own."""
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    file_type = dict(f32=gguf.LlamaFileType.ALL_F32, f16=gguf.LlamaFileType.MOSTLY_F16,
                     bf16=gguf.LlamaFileType.MOSTLY_BF16, q8_0=gguf.LlamaFileType.MOSTLY_Q8_0)[outtype]
    with torch.inference_mode(), patched(spec, folder):
        config = ModelBase.load_hparams(folder, False)
        if make_class := spec.get("expect"):
            model_class = make_class()
        else:
            model_class = get_model_class(get_model_architecture(config, ModelType.TEXT))
        # Without this flag the reference insists on layers that transformers does not save.
        model_class.no_mtp = not any(part in path.read_bytes() for part in (b"mtp.layers", b"eh_proj")
            for path in folder.glob("*.safetensors")) or spec.get("prediction") == "without"
        model_class.mtp_only = spec.get("prediction") == "only"
        # Lists of the class, which every model of a process adds to.
        for name, empty in (("module_paths", []), ("dense_features_dims", {})):
            if hasattr(model_class, name):
                setattr(model_class, name, empty)
        given = spec.get("given")
        model = model_class(folder, file_type, out, hparams={**config, **given} if given else None,
                            **options | spec.get("options", {}))
        # Mistral 3 hands everything to a model inside of it.
        for part in (model, getattr(model, "impl", model)):
            part.get_vocab_base_pre = lambda tokenizer: pre
        # RWKV's converters share this among all models of a process.
        model.lerp_weights = {}
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
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as copies:
        copy = for_reference(folder, spec, Path(copies))
        target = dict(target_model_dir=checkpoint.whole(spec["target"], GOLDEN, Path(copies) / "target")) \
            if "target" in spec else {}
        for outtype in ("f32", "bf16"):
            path = convert(copy, Path(scratch), outtype, pre, spec, **target)
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
    lines = ['{', '  "pre": %s,' % json.dumps(pre), *(['  "given": %s,' % json.dumps(spec["given"])] if spec.get("given") else []),
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
    """With `--input keep=1`, existing checkpoints are kept, and only the expectations are made. With `--input ahead=1`, the recipes that
    need a newer tree than the pinned one are made; by default, all others."""
    failed = []
    for name, spec in CHECKPOINTS.items():
        if not ctx.wants(name) or spec.get("ahead", False) != ("ahead" in ctx.inputs):
            continue
        if "keep" in ctx.inputs:
            folder = ctx.checkpoint(name)
        else:
            folder = ctx.scratch / "arch" / name
            tokenizer = make_checkpoint(name, spec, folder)
            if inner := spec.get("tokenizer_folder", ""):
                into_folders(folder, inner)
            if spec.get("whole"):
                shutil.copytree(folder, ctx.golden / "arch" / name, dirs_exist_ok=True)
            else:
                files = checkpoint.seed_weights(folder, seed_of(name), kinds_of(spec))
                checkpoint.store(folder, seed_of(name), files, tokenizer, "tokenizer_config" in spec, ctx.golden, inner=inner)
        try:
            pre = dict(bpe="llama-bpe", mmbert="mmbert", wordpiece="jina-v2-en", qwen_tiktoken="qwen2").get(spec.get("tokenizer"), "default")
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
