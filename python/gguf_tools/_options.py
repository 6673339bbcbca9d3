"""Keywords of calls: their types, the options of the toolkit that they set, and their documentation."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, TypeVar, Union

from . import _native
from ._calls import hub, is_default, size, sizes, text_path, text_paths, texts

StrPath = Union[str, "os.PathLike[str]"]
Progress = Union[Callable[[int, int], object], Literal[False]]
Lora = Union[StrPath, Sequence[Union[StrPath, tuple[StrPath, float]]], Mapping[Any, float]]
Size = Union[int, str]
Texts = Union[str, Sequence[str]]
Paths = Union[StrPath, Sequence[StrPath]]
TensorTypes = Union[Mapping[str, str], Texts]
Keys = Union[Mapping[str, Any], Texts]


def adapters(lora) -> list:
    """Paths, pairs of a path and a scale, or a dict of them."""
    if isinstance(lora, dict):
        lora = lora.items()
    elif isinstance(lora, (str, bytes, os.PathLike)):
        lora = [lora]
    pairs = [(path, 1.0) if isinstance(path, (str, bytes, os.PathLike)) else path for path in lora]
    return [{"path": os.fsdecode(path), "scale": float(scale)} for path, scale in pairs]


def _rules(types) -> list:
    """``{PATTERN: TYPE}`` or texts ``PATTERN=TYPE``."""
    if isinstance(types, dict):
        return [f"{pattern}={dtype}" for pattern, dtype in types.items()]
    return texts(types)


def _keys(metadata) -> list:
    """``{KEY: VALUE}`` or texts ``KEY=TYPE:VALUE``."""
    if not isinstance(metadata, dict):
        return texts(metadata)
    return [f"{key}={_typed(key, value)}" for key, value in metadata.items()]


def _typed(key: str, value) -> str:
    if isinstance(value, dict):
        kind, value = value["type"], value["value"]
        return f"{kind}:{str(value).lower() if isinstance(value, bool) else value}"
    if isinstance(value, bool):
        return f"bool:{str(value).lower()}"
    for kind, name in ((str, "str"), (int, "int"), (float, "float")):
        if isinstance(value, kind):
            return f"{name}:{value}"
    raise TypeError(f"metadata key `{key}`: expected bool, int, float or str, found {type(value).__name__}")


def _file_types(names) -> list:
    names = texts(names)
    _native.check_file_types(names)
    return names


def _file_type(name):
    return _file_types([name])[0]


def _renames(names: Mapping[str, str]) -> list:
    return [{"old": old, "new": new} for old, new in names.items()]


def _numbers(values) -> list:
    return [values] if isinstance(values, int) else list(values)


def _format(value):
    return None if value == "gguf" else value


class Option(NamedTuple):
    """An option of the toolkit: its path in the JSON form, the conversion of a value, and the value that is left out."""

    path: str
    convert: Callable[[Any], Any]
    default: Any


def of(path: str = "", convert: Callable[[Any], Any] = lambda value: value, default: Any = None) -> Option:
    return Option(path, convert, default)


def flag(path: str) -> Option:
    return of(path, default=False)


class FileTypes(TypedDict, total=False):
    file_type: Annotated[Optional[Texts], of("types", _file_types),
        'File type (:func:`types`) such as ``"q4_k_m"``, or a list of them, which are written in one pass. ``"auto"`` is the float type '
        'of the checkpoint.']
    outtype: Annotated[Optional[Texts], of(), "The same as ``file_type``, by the name of gguf-py."]


class Inputs(TypedDict, total=False):
    lora: Annotated[Lora, of("adapters", adapters, default=()),
        "LoRA adapters to merge: a path, a list of paths or of ``(path, scale)``, or a dict of paths and scales."]
    family: Annotated[Optional[StrPath], of("families.family", text_path), "File with further families of image and video models."]


class Checkpoint(TypedDict, total=False):
    to: Annotated[Literal["gguf", "whisper.cpp"], of("to", _format, default="gguf"),
        'Format to write: ``"gguf"``, or ``"whisper.cpp"`` for Whisper models, with ``"f16"`` as the default type.']
    memory: Annotated[Optional[Size], of("memory", size),
        'Memory to choose the type for if ``file_type`` is missing, in bytes or as a text such as ``"16GB"``. Default: that of this machine.']
    modelfile: Annotated[Optional[StrPath], of("modelfile", text_path), "Path of a Modelfile to write, which imports the file into Ollama."]
    lora_tokenizer: Annotated[bool, flag("lora_tokenizer"), "Use the tokenizer and chat template of the adapter."]
    mmproj: Annotated[bool, flag("with_mmproj"), "Also write the vision or audio projector."]
    mmproj_type: Annotated[Optional[str], of("mmproj_type", _file_type), "File type of the projector."]
    config: Annotated[Optional[StrPath], of("config", text_path),
        "Folder with the tokenizer files, and with config.json if the weights are a single file."]
    unmasked_zeros: Annotated[bool, flag("reading.unmasked_zeros"), "Read all-ones GPTQ zero points as llama.cpp does."]
    no_reshape: Annotated[bool, flag("no_reshape"), "Keep the shapes of tensors of UNets, for stable-diffusion.cpp and diffusers."]
    fp8_as: Annotated[Optional[str], of("fp8_as"), 'Type of FP8 matrices in files of float types: ``"q8_0"``.']


class Rules(TypedDict, total=False):
    tensor_types: Annotated[TensorTypes, of("tensors.rules.tensor_types", _rules, default=()),
        'Types of tensors by a regular expression of their names: ``{"ffn_down": "q6_k"}``. The first match wins.']
    metadata: Annotated[Keys, of("tensors.rules.override_kv", _keys, default=()),
        'Metadata to set: ``{"general.name": "Tuned"}``. A value may be ``{"type": "u32", "value": 1}``.']


class Tensors(Rules, total=False):
    imatrix: Annotated[Optional[StrPath], of("tensors.imatrix", text_path), "Importance matrix file."]
    missing_imatrix: Annotated[Optional[Literal["error", "ones", "neighbour", "raise-type"]], of("tensors.rules.missing_imatrix"),
        'Treatment of tensors without importance data: ``"error"``, ``"ones"``, ``"neighbour"`` or ``"raise-type"``.']
    include_weights: Annotated[Texts, of("tensors.rules.include_weights", texts, default=()),
        "Use importance data only for tensors whose name contains one of these texts."]
    exclude_weights: Annotated[Texts, of("tensors.rules.exclude_weights", texts, default=()),
        "Ignore importance data for tensors whose name contains one of these texts."]
    output_tensor_type: Annotated[Optional[str], of("tensors.rules.output_tensor_type"), "Type of ``output.weight``."]
    token_embedding_type: Annotated[Optional[str], of("tensors.rules.token_embedding_type"), "Type of the token embeddings."]
    leave_output_tensor: Annotated[bool, flag("tensors.rules.leave_output_tensor"), "Do not quantize ``output.weight``."]
    pure: Annotated[bool, flag("tensors.rules.pure"), "Quantize all tensors to the main type of the file type."]
    prune_layers: Annotated[Sequence[int], of("tensors.rules.prune_layers", list, default=()), "Layers to remove, counted from 0."]
    recipe: Annotated[Optional[Union[StrPath, Mapping[str, Any]]], of("replay.recipe", text_path),
        "Recipe that sets the type of each tensor: a file, or the dict of :func:`recipe`. Replaces ``file_type``."]
    save_recipe: Annotated[Optional[StrPath], of("replay.save_recipe", text_path), "Recipe file to write."]
    header_slack: Annotated[Optional[Size], of("tensors.header_slack", size), "Free space in the header, in bytes, for later edits in place."]
    split_max_size: Annotated[Optional[Size], of("tensors.rules.shards.split_max_size", size),
        'Limit of a shard, in bytes of tensor data or as a text such as ``"2GB"``.']
    split_max_tensors: Annotated[Optional[int], of("tensors.rules.shards.split_max_tensors"), "Limit of a shard in tensors."]


class Calibration(TypedDict, total=False):
    calibrate: Annotated[Paths, of("calibration.calibrate", text_paths, default=()),
        'Texts for a calibration, which improves the rounding. Files that end in ``.jsonl`` hold chats. ``"builtin"`` is a built-in text, '
        'and ``"self"`` is text drawn from the model itself.']
    calibration_tokens: Annotated[Optional[int], of("calibration.calibration_tokens"), "Number of tokens to use. Default: 16384."]
    statistics: Annotated[Optional[StrPath], of("calibration.statistics", text_path),
        "Folder in which the statistics of the texts are kept for later runs."]
    rounding: Annotated[Optional[str], of("calibration.rounding"),
        'Last step of the rounding: ``"descent"``, ``"feedback"``, ``"shrinkage"``, ``"scales"`` or ``"full"``.']
    eval_text: Annotated[Optional[StrPath], of("calibration.eval_text", text_path),
        "Text to measure the calibrated files on. Default: the rest of the calibration texts."]
    inputs_only: Annotated[bool, flag("calibration.inputs_only"), "Do not use statistics of output gradients."]
    train_scales: Annotated[bool, flag("calibration.train_scales"), "Train the scales of blocks against the base after rounding."]
    no_verify: Annotated[bool, flag("calibration.no_verify"), "Do not measure the calibrated files."]
    target_size: Annotated[Optional[Size], of("budget.limit.target_size", size),
        "Choose the types of tensors for a file of this size, in bytes or as a text. Text models need ``calibrate`` or ``imatrix``."]
    target_bpw: Annotated[Optional[float], of("budget.limit.target_bpw"), "The same, as a number of bits per weight."]
    no_larger_than_type: Annotated[Optional[str], of("budget.limit.no_larger_than_type"), "The same, as the size of a file of this type."]
    allow_types: Annotated[Texts, of("budget.allow_types", texts, default=()), "Types to choose from."]
    keep_types: Annotated[bool, flag("budget.keep_types"), "Keep the types of the file type, and only improve the rounding."]


class Name(TypedDict, total=False):
    model_name: Annotated[Optional[str], of("naming.model_name"), "Name of the model. Default: from the checkpoint."]


class ArchName(TypedDict, total=False):
    arch_as: Annotated[Optional[str], of("arch.arch_as"), "Architecture or class name to use instead of that of the config."]


class Vocabulary(Name, ArchName, total=False):
    pre: Annotated[Optional[str], of("naming.pre"), "Name of the pre-tokenizer, if it is not recognized."]
    embed_tokenizer_json: Annotated[bool, flag("naming.embed_tokenizer_json"), "Store the tokenizer file in the metadata."]
    equal_scores: Annotated[bool, flag("naming.equal_scores"),
        "Give all tokens of a llama tokenizer without scores the same score, like convert_hf_to_gguf.py."]
    target_model_dir: Annotated[Optional[StrPath], of("arch.target_model_dir", text_path), "Target model of a draft model."]


class Mistral(TypedDict, total=False):
    mistral_format: Annotated[bool, flag("reading.mistral_format"), "Read Mistral's own files if both layouts are present."]


class Layers(TypedDict, total=False):
    mtp: Annotated[Optional[Literal["with", "without", "only"]], of("arch.prediction"),
        'Multi-token prediction layers: ``"with"`` (the default), ``"without"`` or ``"only"``.']
    dense_modules: Annotated[bool, flag("arch.dense_modules"), "Include the dense layers of a sentence-transformers model."]
    repack: Annotated[bool, flag("repack"), "Keep quantized weights bit for bit if a type can hold them."]


class Via(TypedDict, total=False):
    via: Annotated[Optional[str], of("encoding.via"), "Float type that weights are rounded to before they are quantized."]


class BigEndian(TypedDict, total=False):
    big_endian: Annotated[bool, flag("encoding.plain.big_endian"), "Write big-endian files."]


class Values(BigEndian, total=False):
    allow_nonfinite: Annotated[bool, flag("encoding.plain.allow_nonfinite"), "Convert NaNs and infinities instead of failing."]


class Overwrite(TypedDict, total=False):
    overwrite: Annotated[bool, flag("output.force"), "Overwrite existing files, and discard an interrupted run."]


class Output(Overwrite, total=False):
    threads: Annotated[Optional[int], of("output.threads"), "Number of threads. Default: one per core. The files do not depend on it."]


class Resume(TypedDict, total=False):
    resume: Annotated[bool, flag("output.resume"), "Resume an interrupted run, and keep the parts of this one if it is interrupted."]


class Access(TypedDict, total=False):
    token: Annotated[Optional[Union[str, bool]], of(), "Token of the Hub. Default: that of huggingface_hub. False for none."]
    cache_dir: Annotated[Optional[StrPath], of(), "Cache of the Hub. Default: that of huggingface_hub."]
    endpoint: Annotated[Optional[str], of(), "Address of the Hub."]


class Hub(Access, total=False):
    revision: Annotated[Optional[str], of(), "Branch, tag or commit of the model."]


class Downloads(Hub, total=False):
    keep_downloads: Annotated[bool, flag("keep"), "Store downloads in the cache."]


class Watched(TypedDict, total=False):
    progress: Annotated[Optional[Progress], of(),
        "Function that is called on this thread with the finished and the total amount of work of each stage. By default a terminal or "
        "notebook shows a tqdm bar if tqdm is installed; False shows none."]


class GgufInput(TypedDict, total=False):
    allow_requantize: Annotated[bool, flag("allow_requantize"), "Quantize tensors that are already quantized. They lose precision twice."]
    repair: Annotated[bool, flag("repair"), "Repair a file of an image or video model that ComfyUI refuses."]
    keep_split: Annotated[bool, flag("keep_split"), "Write as many shards as the input has."]


class Base(TypedDict, total=False):
    base: Annotated[Optional[StrPath], of("base", text_path),
        "Folder or Hub model with the config of the base model. Default: the model that the adapter names, if it is a local folder."]


class StatedType(TypedDict, total=False):
    file_type: Annotated[Optional[str], of("file_type", _file_type), "File type that the metadata state. Default: that of the weights."]
    outtype: Annotated[Optional[str], of(), "The same as ``file_type``, by the name of gguf-py."]


class Publication(TypedDict, total=False):
    file_type: Annotated[Texts, of("types", texts, default=()), "File types to write."]
    ladder: Annotated[Optional[Literal["small", "full"]], of("ladder"), 'Predefined set of types: ``"small"`` (the default) or ``"full"``.']
    fit: Annotated[Union[Size, Sequence[Size]], of("fit", sizes, default=()),
        'Memory sizes, in bytes or as texts such as ``"8GB"``; the largest type that fits in each is written.']
    fit_context: Annotated[Optional[int], of("fit_context"),
        "Tokens of context that ``fit`` includes. Default: 8192, or less if the model was trained for less."]
    calibrate: Annotated[Paths, of("calibrate", text_paths, default=()),
        'Texts or chats to optimize types and rounding of each file on. ``"builtin"`` is a built-in text.']
    calibration_tokens: Annotated[Optional[int], of("calibration_tokens"),
        "Tokens to use of all calibration texts together. Default: 16,384."]
    no_calibrate: Annotated[bool, flag("no_calibrate"), "Do not calibrate, although an earlier run did."]
    target_size: Annotated[Union[Size, Sequence[Size]], of("target_size", sizes, default=()),
        'Sizes, in bytes or as texts such as ``"5GB"``; for each, one more file whose types are chosen for it. Needs ``calibrate``.']
    remove: Annotated[Texts, of("remove", texts, default=()), "Files of earlier runs to remove, by their type in the card."]
    chat_template: Annotated[Optional[StrPath], of("chat_template", text_path),
        'File with the chat template, which replaces the one of the source. Later runs keep its text; ``"source"`` restores the template '
        'of the source.']
    model_name: Annotated[Optional[str], of("model_name"), "Name of the model."]
    draft: Annotated[Paths, of("draft", text_paths, default=()), "Checkpoint folders of draft models."]
    base_type: Annotated[Optional[str], of("base_type"), "Type of the file that the others are made from."]
    imatrix_text: Annotated[Paths, of("imatrix_text", text_paths, default=()),
        "Texts or chats for the importance matrix. Default: a small built-in text."]
    imatrix_chunks: Annotated[Optional[int], of("imatrix_chunks"), "Limit of the chunks of ``imatrix_text``."]
    no_imatrix: Annotated[bool, flag("no_imatrix"), "Do not use an importance matrix."]
    eval_text: Annotated[Paths, of("eval_text", text_paths, default=()), "Texts to measure the files on. Default: a small built-in text."]
    chunks: Annotated[Optional[int], of("chunks"), "Limit of the chunks of ``eval_text``. Default: 40."]
    context: Annotated[Optional[int], of("context"), "Tokens of a chunk. Default: 512."]
    drop_dominated: Annotated[bool, flag("drop_dominated"), "Omit files that are both larger and worse than another file."]
    split_max_size: Annotated[Optional[Size], of("split_max_size", size), "Limit of a shard. Default: 48 GB."]
    base_model: Annotated[Optional[str], of("base_model"), "Base model in the card, as OWNER/NAME."]
    repo: Annotated[Optional[str], of("repo"), "Published repository, as OWNER/NAME, for the commands in the card."]
    quantized_by: Annotated[Optional[str], of("quantized_by"), "Publisher in the card."]
    card_metadata: Annotated[Optional[StrPath], of("card_metadata", text_path),
        "YAML file or card whose keys are added to the front matter of the card. Later runs keep them."]
    replace_types: Annotated[bool, flag("replace_types"), "Remove the types of earlier runs that are not requested again."]
    overwrite: Annotated[bool, flag("force"), "Overwrite files that were not written by an earlier run, or changed since."]
    threads: Annotated[Optional[int], of("threads"), "Number of threads. Default: one per core."]
    activations: Annotated[Optional[Literal["f32", "rounded"]], of("activations"), 'Precision of activations: ``"f32"`` or ``"rounded"``.']


class Chunks(TypedDict, total=False):
    context: Annotated[int, of("chunks.context", default=512), "Tokens of a chunk."]
    chunks: Annotated[Optional[int], of("chunks.n_chunks"), "Maximum number of chunks. Default: all."]


class Stride(TypedDict, total=False):
    stride: Annotated[Optional[int], of("chunks.stride"),
        "Tokens between the beginnings of overlapping chunks, of which only the last ones are counted. Default: chunks do not overlap."]


class Comparing(TypedDict, total=False):
    continuations: Annotated[Optional[int], of("continuations"),
        "Number of prompts that all models continue greedily. The text is divided into as many parts, and the first 64 tokens of each "
        "are continued by 32 tokens. Default: none."]
    top_tokens: Annotated[int, of("top_tokens", default=10), "Number of most likely tokens that are compared as sets."]
    tensors: Annotated[bool, flag("tensors"), "Measure the quantization error of each tensor too."]
    html: Annotated[Optional[StrPath], of("html", text_path), "Page with charts to write."]
    csv: Annotated[Optional[StrPath], of("csv", text_path), "Table of the metrics in CSV to write."]
    save_logits: Annotated[Optional[StrPath], of("save_logits", text_path), "File for the logits of the base."]
    overwrite: Annotated[bool, flag("force"), "Overwrite existing outputs."]


class Collecting(TypedDict, total=False):
    process_output: Annotated[bool, flag("process_output"), "Include the output matrix."]
    format: Annotated[Literal["gguf", "dat"], of("format", default="gguf"), '``"gguf"``, or ``"dat"`` for the format of older programs.']
    merge: Annotated[Paths, of("merge", text_paths, default=()), "Existing matrices of the same model to add."]
    save_every: Annotated[Optional[int], of("save_every"), "Number of chunks between saves of the output."]
    resume: Annotated[bool, flag("resume"), "Continue an interrupted run over one text."]
    overwrite: Annotated[bool, flag("force"), "Overwrite an existing file."]


class Running(TypedDict, total=False):
    lora: Annotated[Lora, of("run.adapters", adapters, default=()),
        "LoRA adapter files (GGUF) to apply while the model runs, as in :class:`Model`."]
    threads: Annotated[Optional[int], of("run.threads"), "Number of threads. Default: one per core."]
    activations: Annotated[Literal["f32", "rounded"], of("run.activations", default="f32"),
        '``"f32"`` for exact activations, or ``"rounded"`` to round them as llama.cpp\'s CPU kernels do.']
    progress: Annotated[Optional[Progress], of(), "Called with the number of finished chunks and of all chunks."]


class Checking(TypedDict, total=False):
    base: Annotated[Optional[StrPath], of("base", text_path),
        "The file that ``file`` was made from. With it, the KL divergence is checked, and the perplexity only if it has a margin."]
    new_base: Annotated[bool, flag("new_base"),
        "Accept a base with other weights than that of the baseline, after a retraining. The file is worse only if the paired difference of "
        "the KL divergences exceeds two standard errors (more with few chunks), too."]
    save: Annotated[bool, flag("save"), "Measure and write a new baseline instead."]
    overwrite: Annotated[bool, flag("force"), "Overwrite an existing baseline."]
    context: Annotated[Optional[int], of("context"), "Tokens of a chunk, with ``save``. Default: 512."]
    chunks: Annotated[Optional[int], of("chunks"), "Maximum number of chunks, with ``save``. Default: all."]
    perplexity_margin: Annotated[Optional[float], of("perplexity_margin"),
        "Percent by which the perplexity may rise. Default: that of the baseline. A new baseline has 0.1, or no limit with ``base``."]
    divergence_margin: Annotated[Optional[float], of("divergence_margin"),
        "Percent by which the KL divergence may rise. Default: that of the baseline, or 2."]
    threads: Annotated[Optional[int], of("threads"), "Number of threads. Default: one per core."]
    activations: Annotated[Optional[Literal["f32", "rounded"]], of("activations"),
        '``"f32"`` or ``"rounded"``. Default: that of the baseline.']
    progress: Annotated[Optional[Progress], of(), "Called with the number of finished chunks and of all chunks."]


class Writing(TypedDict, total=False):
    overwrite: Annotated[bool, flag("force"), "Overwrite existing files."]
    dry_run: Annotated[bool, flag("dry_run"), "Report the result without writing."]


class Reading(TypedDict, total=False):
    progress: Annotated[Optional[Progress], of(), "Called with the bytes that are done and the total."]


class CopyOptions(Writing, Reading, total=False):
    """Keywords of calls that copy tensors."""


class SplitOptions(CopyOptions, total=False):
    """Keywords of :func:`split`."""

    max_size: Annotated[Optional[Size], of("shards.split_max_size", size),
        'Maximum size of the tensor data of a shard, in bytes or as a text such as ``"2GB"``.']
    max_tensors: Annotated[Optional[int], of("shards.split_max_tensors"), "Maximum number of tensors of a shard."]
    no_tensor_first: Annotated[bool, flag("no_tensor_first"), "Write a first shard without tensors."]


class ExtractOptions(CopyOptions, total=False):
    """Keywords of :func:`extract`."""

    f32: Annotated[bool, flag("f32"), "Convert all tensors to float32. Quantized tensors always are."]


class EditOptions(Writing, total=False):
    """Keywords of :func:`edit_metadata`."""

    unset: Annotated[Texts, of("unset", texts, default=()),
        "Key or keys to remove. A name that ends with ``*`` stands for all keys with that prefix."]
    rename: Annotated[Optional[Mapping[str, str]], of("rename", _renames), "New names by old name. Both may end with ``*``."]
    from_json: Annotated[Optional[StrPath], of("from", text_path), "A file of ``gguf-inspect export-metadata`` with more values."]
    chat_template: Annotated[Optional[str], of(), "Text of a new chat template."]
    output: Annotated[Optional[StrPath], of("output", text_path), "A new file to write, instead of changing ``file``."]
    header_slack: Annotated[Optional[int], of("header_slack"), "Free space to leave in the header, in bytes."]


class VerifyOptions(Reading, total=False):
    """Keywords of :func:`verify`."""

    against: Annotated[Optional[StrPath], of("against", text_path), "The source: a checkpoint folder, ``hf://OWNER/MODEL`` or a GGUF file."]
    lora: Annotated[Lora, of("adapters", adapters, default=()),
        "LoRA adapters that were merged into the source, as in :func:`convert`: adapter files for a GGUF source, folders or addresses "
        "for a checkpoint."]
    lora_tokenizer: Annotated[bool, flag("lora_tokenizer"), "The file has the tokenizer and chat template of the adapter."]
    only: Annotated[Texts, of("only", texts, default=()),
        "Limit the checks to one or several of ``structure``, ``blocks``, ``loader``, ``architecture``, ``tokenizer``, ``template``, "
        "``file-type`` and ``source``."]
    programs: Annotated[Texts, of("programs", texts, default=()),
        "Report what one or several of ``llama.cpp``, ``lm-studio``, ``ollama``, ``vllm``, ``transformers``, ``comfyui`` and "
        "``comfyui-molbal`` do with the file, instead of the check ``loader``."]
    strict: Annotated[bool, flag("strict"), "Treat warnings as errors."]
    threads: Annotated[Optional[int], of("threads"), "Number of threads. Default: one per core."]


class FitOptions(TypedDict, total=False):
    """Keywords of :func:`fit`."""

    memory: Annotated[Optional[Size], of("memory", size),
        'Available memory, in bytes or as a text such as ``"16GiB"``. Default: the memory of this machine.']
    context: Annotated[Union[int, Sequence[int]], of("context", _numbers, default=()),
        "Context length in tokens, or a list. Default: the training context length."]
    parallel: Annotated[int, of("parallel", default=1), "Number of sequences at the same time."]
    kv_type: Annotated[str, of("kv_type", default="f16"), 'Type of the KV cache, for example ``"q8_0"``.']
    batch: Annotated[int, of("batch", default=512), "Tokens of a batch."]
    also: Annotated[Paths, of("with", text_paths, default=()), "Projectors and draft models to load too."]


class RecipeOptions(Hub, total=False):
    """Keywords of :func:`recipe`."""

    overwrite: Annotated[bool, flag("force"), "Overwrite an existing recipe file."]


class ExportOptions(TypedDict, total=False):
    """Keywords of :func:`export`."""

    dtype: Annotated[str, of("dtype", default="bf16"), 'Type of the weights: ``"bf16"``, ``"f16"`` or ``"f32"``.']
    split_max_size: Annotated[Optional[Size], of("split_max_size", size),
        'Limit of a shard, in bytes of tensor data or as a text such as ``"5GB"``.']
    allow_nonfinite: Annotated[bool, flag("allow_nonfinite"), "Convert NaNs and infinities instead of failing."]
    overwrite: Annotated[bool, flag("force"), "Overwrite an existing folder or file."]
    threads: Annotated[Optional[int], of("threads"), "Number of threads. Default: one per core."]
    progress: Annotated[Optional[Progress], of(), "As in :func:`convert`."]


class Worker(TypedDict, total=False):
    overwrite: Annotated[bool, flag("force"), "Overwrite existing files."]
    threads: Annotated[Optional[int], of("threads"), "Number of threads. Default: one per core. The files do not depend on it."]


class GenerateOptions(TypedDict, total=False):
    """Keywords of :meth:`Model.generate`."""

    max_tokens: Annotated[int, of("max_tokens", default=128), "Maximum number of generated tokens."]
    plain: Annotated[bool, flag("plain"), "Read the text of special tokens in a text as plain text."]
    temperature: Annotated[float, of("sampling.temperature", default=0.0), "Sampling temperature; 0 is greedy."]
    top_k: Annotated[int, of("sampling.top_k", default=40), "Number of most likely tokens to sample from; 0 means all."]
    top_p: Annotated[float, of("sampling.top_p", default=0.95), "Sample from the most likely tokens with this total probability."]
    min_p: Annotated[float, of("sampling.min_p", default=0.0), "Sample from tokens with this share of the highest probability."]
    repeat_penalty: Annotated[float, of("sampling.repeat_penalty", default=1.0), "Divisor of the logits of earlier tokens; 1 for none."]
    seed: Annotated[int, of("sampling.seed", default=0), "Random seed."]
    images: Annotated[Paths, of("images", text_paths, default=()),
        "PNG or JPEG files. They replace ``<__media__>`` in the prompt, or parts of type ``image`` in messages; without such a place, "
        "they come before the text or the last message of the user."]
    audio: Annotated[Paths, of("audio", text_paths, default=()),
        "WAV, FLAC or MP3 files. They replace ``<__media__>`` in the prompt, or parts of type ``audio`` in messages. With ``images``, "
        "the places are ``<__image__>`` and ``<__audio__>``."]
    mmproj: Annotated[Optional[StrPath], of("mmproj", text_path), "Vision or audio projector (GGUF), for ``images`` and ``audio``."]
    image_tokens: Annotated[Optional[int], of("image_tokens"),
        "Maximum number of tokens of each image, for models in which it depends on the image size."]
    tools: Annotated[Optional[Sequence[Mapping[str, Any]]], of(), "Functions that the model may call, with messages."]
    variables: Annotated[Optional[Mapping[str, Any]], of(), "A dict of further variables of the template, with messages."]


class ChatOptions(TypedDict, total=False):
    """Keywords of :meth:`Model.chat`."""

    system: Annotated[Optional[str], of("system"), "System message."]
    max_tokens: Annotated[Optional[int], of("max_tokens"),
        "Maximum number of tokens of an answer. Default: the rest of the model's context, unless the answer repeats itself."]
    temperature: Annotated[Optional[float], of("sampling.temperature"),
        "Sampling temperature; 0 is greedy. Default: the value that the file recommends, or 0.3."]
    top_k: Annotated[Optional[int], of("sampling.top_k"),
        "Number of most likely tokens to sample from; 0 means all. Default: the value that the file recommends, or 40."]
    top_p: Annotated[Optional[float], of("sampling.top_p"),
        "Sample from the most likely tokens with this total probability. Default: the value that the file recommends, or 0.95."]
    min_p: Annotated[Optional[float], of("sampling.min_p"),
        "Sample from tokens with this share of the highest probability. Default: the value that the file recommends, or 0.05."]
    repeat_penalty: Annotated[Optional[float], of("sampling.repeat_penalty"),
        "Divisor of the logits of tokens that occurred before. Default: the value that the file recommends, or 1, which changes nothing."]
    seed: Annotated[int, of("sampling.seed", default=0), "Random seed."]
    think: Annotated[Optional[bool], of("template.think"), "Turn thinking on or off. Default: as in the chat template."]
    chat_template: Annotated[Optional[str], of("template.template_text"), "Text of a chat template to use instead of the file's."]
    variables: Annotated[Optional[Mapping[str, Any]], of("template.variables"), "A dict of further variables of the template."]


class WorkerOptions(Worker, Access, Watched, total=False):
    """Keywords of :func:`assemble`."""


class PartOptions(WorkerOptions, total=False):
    """Keywords of :func:`part`."""

    part_files: Annotated[bool, of(default=False),
        "Write the part to a separate file next to the output, for file systems where several machines cannot write one file. By "
        "default all parts write to the temporary file of the output."]


class ConvertOptions(
    FileTypes, Checkpoint, Inputs, Tensors, Calibration, Vocabulary, Mistral, Layers, Via, Values, Output, Resume, Downloads, Watched,
    total=False,
):
    """Keywords of :func:`convert`."""


class QuantizeOptions(
    FileTypes, Inputs, GgufInput, Tensors, Calibration, Values, Output, Resume, Watched, total=False
):
    """Keywords of :func:`quantize`."""


class SaveOptions(FileTypes, Tensors, Vocabulary, Layers, Via, Values, Output, Watched, total=False):
    """Keywords of :func:`save`."""


class AdapterOptions(FileTypes, Base, Name, ArchName, Values, Output, Downloads, Watched, total=False):
    """Keywords of :func:`convert_adapter`."""


class ProjectorOptions(FileTypes, Rules, Name, Mistral, Via, Values, Output, Downloads, Watched, total=False):
    """Keywords of :func:`convert_projector`."""


class VocabOptions(StatedType, Vocabulary, Mistral, BigEndian, Overwrite, Hub, total=False):
    """Keywords of :func:`convert_vocab`."""


class PublishOptions(Publication, Hub, Watched, total=False):
    """Keywords of :func:`publish`."""


class PerplexityOptions(Chunks, Stride, Running, total=False):
    """Keywords of :func:`perplexity`."""


class CompareOptions(Chunks, Comparing, Running, total=False):
    """Keywords of :func:`compare`."""


class ImatrixOptions(Chunks, Collecting, Running, total=False):
    """Keywords of :func:`imatrix`."""


_F = TypeVar("_F", bound=Callable[..., Any])


def keywords(options: type) -> Callable[[_F], _F]:
    """Adds the keywords of ``options`` to the signature and the docstring of a function that takes them as ``**given``."""
    from inspect import Parameter, signature

    def extended(function: Any) -> Any:
        own = list(signature(function).parameters.values())[:-1]
        rows = options.__annotations__.items()
        more = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=kind.__metadata__[0].default, annotation=kind.__origin__)
            for name, kind in rows
        ]
        function.__signature__ = signature(function).replace(parameters=own + more)
        doc = function.__doc__ or ""
        before, args, after = doc.partition("Args:\n")
        stated, end, after = after.partition("\n\n")
        indent = "\n" + before[before.rfind("\n") + 1 :] + "    "
        # A function may describe a keyword itself.
        missing = [f"{indent}{name}: {kind.__metadata__[1]}" for name, kind in rows if f"{indent}{name}: " not in f"\n{stated}"]
        function.__doc__ = before + args + stated + "".join(missing) + end + after if args else doc
        return function

    return extended


def defaults(kind: type) -> dict:
    """The defaults of the keywords that have one."""
    stated = {name: annotation.__metadata__[0].default for name, annotation in kind.__annotations__.items()}
    return {name: value for name, value in stated.items() if not is_default(value)}


_HUB = ("revision", "token", "cache_dir", "endpoint")


def put(options: dict, path: str, value) -> None:
    """Sets an option by its path."""
    *groups, last = path.split(".")
    for group in groups:
        options = options.setdefault(group, {})
    options[last] = value


def options(name: str, kind: type, given: Mapping[str, Any], places: Mapping[str, str] = {}, *, has_hub: bool = True) -> dict:
    """The options of the call ``name`` for keywords of ``kind``, without those that have no place. ``places`` names the options of
    keywords that the call has elsewhere. Values that stand for a default are left out: None, False of a flag, and empty lists."""
    unknown = given.keys() - kind.__annotations__.keys()
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument '{min(unknown)}'")
    given = {**defaults(kind), **given}
    outtype = given.pop("outtype", None)
    if outtype is not None:
        if given.get("file_type") is not None:
            raise TypeError("file_type and outtype are the same argument")
        given["file_type"] = outtype
    found: dict = {"hub": hub(*(given.pop(keyword, None) for keyword in _HUB))} if has_hub else {}
    for keyword, value in given.items():
        option = kind.__annotations__[keyword].__metadata__[0]
        is_stated = not is_default(value) or (value is False and option.default is None)
        if is_stated and option.path:
            put(found, places.get(keyword, option.path), option.convert(value))
    return found


def with_recipe_file(given: Mapping[str, Any], run):
    """Calls ``run`` with keywords. A recipe that is a dict is in a temporary file during the call."""
    if not isinstance(given.get("recipe"), dict):
        return run(given)
    import json
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "recipe.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(given["recipe"], file)
        return run({**given, "recipe": path})
