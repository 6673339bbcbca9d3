"""Conversions: checkpoints and GGUF files to GGUF files, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import _native
from ._calls import as_path, call, text_path
from ._options import (
    AdapterOptions, ConvertOptions, ExportOptions, PartOptions, ProjectorOptions, QuantizeOptions, RecipeOptions, SaveOptions,
    VocabOptions, WorkerOptions, keywords, options, put, with_recipe_file,
)
from ._progress import shown
from ._results import PlannedFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from typing_extensions import Unpack

    from ._annotations import Module
    from ._options import StrPath


@keywords(ConvertOptions)
def convert(src: StrPath, out: StrPath, **given: Unpack[ConvertOptions]) -> list[Path]:
    """Converts a checkpoint to GGUF files.

    Ctrl-C and an exception of ``progress`` stop the conversion. It then leaves no output, except with ``resume``.

    Args:
        src: Checkpoint folder, or a model of the Hugging Face Hub: ``hf://OWNER/MODEL[@REVISION]``, or ``OWNER/MODEL`` if there
            is no such folder. A model in the local cache is read from there; others are read over the network. For an image or
            video model, a file of weights, a folder or a diffusers pipeline.
        out: File to write, or a folder if it exists or ends with a separator. ``{ftype}`` in the name stands for the file type.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The input, an option or the output is invalid.
        ValueError: An argument is not one of the supported values.

    Example:
        >>> gt.convert("meta-llama/Llama-3.2-1B", "out/", file_type=["q4_k_m", "q8_0"], lora="my-adapter")
    """
    return _written("convert", ConvertOptions, src, out, given)


@keywords(QuantizeOptions)
def quantize(src: StrPath, out: StrPath, **given: Unpack[QuantizeOptions]) -> list[Path]:
    """Quantizes a GGUF file to other types, byte-identical to ``llama-quantize``.

    Args:
        src: GGUF file, or any shard of a split model.
        out: File or folder to write, as in :func:`convert`.
        file_type: File type (:func:`types`), or a list of them. ``"copy"`` keeps all tensors.
        lora: LoRA adapter files (GGUF) to merge: a path, a list of paths or of ``(path, scale)``, or a dict of paths and scales.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The input, an option or the output is invalid.

    Example:
        >>> gt.quantize("model-bf16.gguf", "model-q3.gguf", file_type="q3_k_m", calibrate="texts.txt", target_size="2GB")
    """
    return _written("quantize", QuantizeOptions, src, out, given)


def plan(src: StrPath, **keywords: Any) -> list[PlannedFile]:
    """Plans the files that :func:`convert` or, for a GGUF file, :func:`quantize` would write. Reads no weights.

    Args:
        src: The input, as in these functions.
        **keywords: Their other arguments.

    Returns:
        A :class:`PlannedFile` for each file. A reason why the files cannot be written, such as missing importance data, is a
        :class:`GgufWarning`.

    Raises:
        GgufError: The input or an option is invalid.

    Example:
        >>> [(file.name, file.nbytes) for file in gt.plan("Llama-3.2-1B", file_type=["q4_k_m", "q8_0"])]
    """
    keywords = dict(keywords)
    paths = {"src": src, "out": keywords.pop("out", None)}
    name, kind = _given("plan", src, keywords)
    report = _report(name, kind, paths, keywords, False, "_plan")
    return [_planned(file) for file in report["outputs"]]


def plan_parts(plan: StrPath, src: StrPath, out: StrPath, **keywords: Any) -> None:
    """Saves a plan of what :func:`convert` or, for a GGUF file, :func:`quantize` would write, so that several processes or machines
    can convert a part each. Reads no weights.

    All of them need the same version of the package, and the inputs under the same paths. Relative paths start from the current
    folder, in which the parts must then run.

    Args:
        plan: Plan to write.
        src: The input, as in these functions.
        out: The output, as in these functions.
        **keywords: Their other arguments except ``resume``, ``keep_downloads`` and ``progress``. ``overwrite`` overwrites an
            existing plan. ``recipe`` is a file.

    Raises:
        GgufError: The input or an option is invalid, or the plan exists.

    Example:
        >>> gt.plan_parts("plan.json", "Llama-3.2-1B", "llama-q4_k_m.gguf", file_type="q4_k_m")
    """
    name, kind = _given("plan_parts", src, keywords, {"resume", "keep_downloads", "progress"})
    if isinstance(keywords.get("recipe"), dict):
        raise TypeError("recipe: expected a file, which the parts can read")
    chosen = _chosen(name, kind, {"src": src, "out": out}, keywords)
    call("plan_parts", {"plan": text_path(plan), "conversion": {"operation": name, "options": chosen}})


@keywords(PartOptions)
def part(plan: StrPath, number: int, count: int, **given: Unpack[PartOptions]) -> None:
    """Converts one part of a plan of :func:`plan_parts`. An interrupted part is resumed; nothing is done for a finished one.

    Args:
        plan: The plan.
        number: Number of the part, from 1.
        count: Number of parts, the same for all parts of a plan.
        overwrite: Convert the part again.
        progress: As in :func:`convert`.

    Raises:
        GgufError: The inputs differ from those of the plan, or the part cannot be written.

    Example:
        >>> gt.part("plan.json", 1, 2)
        >>> gt.part("plan.json", 2, 2)
    """
    worker = options("part", PartOptions, given)
    part = {"plan": text_path(plan), "part": f"{number}/{count}", "part_files": given.get("part_files", False)}
    call("part", {**part, "worker": worker}, given.get("progress"))


@keywords(WorkerOptions)
def assemble(plan: StrPath, **given: Unpack[WorkerOptions]) -> list[Path]:
    """Checks all parts of a plan and completes the output, which is byte-identical to that of a single call.

    Args:
        plan: The plan.
        progress: As in :func:`convert`.

    Returns:
        The paths of the files.

    Raises:
        GgufError: A part is missing, damaged or of another plan, or an output exists.

    Example:
        >>> gt.assemble("plan.json")
    """
    worker = options("assemble", WorkerOptions, given)
    return _paths(call("assemble", {"plan": text_path(plan), "worker": worker}, given.get("progress")))


@keywords(AdapterOptions)
def convert_adapter(src: StrPath, out: StrPath, **given: Unpack[AdapterOptions]) -> list[Path]:
    """Converts a LoRA adapter of PEFT or mlx-lm to a GGUF adapter file. To merge it instead, use ``convert(lora=...)``.

    Args:
        src: Adapter folder, or an adapter of the Hub.
        out: File or folder to write, as in :func:`convert`.
        file_type: ``"f32"`` (the default), ``"f16"``, ``"bf16"`` or ``"q8_0"``, or a list of them.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The input, an option or the output is invalid.

    Example:
        >>> gt.convert_adapter("my-adapter", "my-adapter.gguf", base="Llama-3.2-1B")
    """
    return _written("convert_adapter", AdapterOptions, src, out, given)


@keywords(ProjectorOptions)
def convert_projector(src: StrPath, out: StrPath, **given: Unpack[ProjectorOptions]) -> list[Path]:
    """Converts the vision or audio projector of a checkpoint, without the model. To write both, use ``convert(mmproj=True)``.

    Args:
        src: Checkpoint folder, or a model of the Hub.
        out: File or folder to write, as in :func:`convert`.
        file_type: File type such as ``"f16"``, or a list of them.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The input, an option or the output is invalid.

    Example:
        >>> gt.convert_projector("Qwen3-VL-4B", "mmproj.gguf", file_type="f16")
    """
    return _written("convert_projector", ProjectorOptions, src, out, given)


@keywords(VocabOptions)
def convert_vocab(src: StrPath, out: StrPath, **given: Unpack[VocabOptions]) -> Path:
    """Writes a GGUF file with the metadata and tokenizer of a checkpoint, without weights.

    Args:
        src: Checkpoint folder, whose weights may be missing, or a model of the Hub.
        out: File to write, or a folder.

    Returns:
        The path of the file.

    Raises:
        GgufError: The input, an option or the output is invalid.

    Example:
        >>> gt.convert_vocab("Llama-3.2-1B", "vocab.gguf")
    """
    report = _report("convert_vocab", VocabOptions, {"src": src, "out": out}, given, False)
    return as_path(report["output"])


@keywords(ExportOptions)
def export(src: StrPath, out: StrPath, **given: Unpack[ExportOptions]) -> Path:
    """Exports a GGUF file to a checkpoint folder, or that of an image, video or sound model to a safetensors file.

    Args:
        src: GGUF file, or any shard of a split model.
        out: Folder or file to write.

    Returns:
        The path of the folder or file.

    Raises:
        GgufError: The file cannot be read or exported, or the output cannot be written.

    Example:
        >>> gt.export("model-q8_0.gguf", "model-hf")
    """
    chosen = options("export", ExportOptions, given, has_hub=False)
    files = {"source": text_path(src), "out": text_path(out)}
    return as_path(call("export", {**files, **chosen}, given.get("progress"))["output"])


@keywords(RecipeOptions)
def recipe(file: StrPath, output: StrPath | None = None, **given: Unpack[RecipeOptions]) -> dict[str, Any]:
    """Extracts the recipe of a GGUF file from its header: the type of each tensor, and settings.

    Args:
        file: GGUF file, or any shard of a split model. An address (``https://...`` or ``hf://OWNER/MODEL[@REVISION]/FILE``)
            works too; only the header is downloaded.
        output: Recipe file to write.

    Returns:
        The recipe, which the argument ``recipe`` of :func:`convert`, :func:`quantize` and :func:`save` takes.

    Raises:
        GgufError: The file cannot be read, or its types match no file type.

    Example:
        >>> gt.convert("my-tune", "mine.gguf", recipe=gt.recipe("hf://OWNER/MODEL-GGUF/MODEL-Q4_K_M.gguf"))
    """
    files = {"file": os.fsdecode(file), "output": text_path(output), "force": False}
    return call("recipe", {**files, **options("recipe", RecipeOptions, given)})


@keywords(SaveOptions)
def save(
    model: Module | Mapping[str, Any],
    out: StrPath,
    *,
    config: Any = None,
    tokenizer: Any = None,
    generation_config: Any = None,
    name: str | None = None,
    **given: Unpack[SaveOptions],
) -> list[Path]:
    """Converts a model in memory to GGUF files, without an intermediate checkpoint.

    Arrays are read in place, without a copy, unless they are on another device or not contiguous. Do not write to them
    during the call.

    Args:
        model: Model of transformers, or a state dict: arrays of torch or NumPy by the names that ``save_pretrained`` uses.
        out: File or folder to write, as in :func:`convert`.
        config: Contents of ``config.json``, as a dict or a config of transformers. Default: the config of the model.
        tokenizer: Tokenizer of transformers, folder with tokenizer files, or a dict of file names and contents.
        generation_config: Contents of ``generation_config.json``. Default: that of the model.
        name: Name of the model if neither ``model_name`` nor the config states one.

    Returns:
        The paths of the files.

    Raises:
        GgufError: A tensor does not fit the config, or an option or the output is invalid.
        TypeError: An array has a type that checkpoints do not support.

    Example:
        >>> gt.save(model, "tuned-q8_0.gguf", file_type="q8_0", tokenizer=tokenizer)
    """
    import json

    from . import _memory

    loaded = _memory.load(model, config, tokenizer, generation_config, name)

    def run(given):
        chosen = options("save", SaveOptions, given)
        put(chosen, "output.out", text_path(out))
        with shown(given.get("progress")) as report:
            return json.loads(_native.save(*loaded, json.dumps(chosen), report))

    return _paths(with_recipe_file(given, run))


def _given(caller: str, src, keywords: dict, without: set | frozenset = frozenset()) -> tuple[str, type]:
    """The call for an input, and the type of its keywords. ``keywords`` may have all of them except ``without``."""
    name, kind = ("quantize", QuantizeOptions) if _is_gguf(src) else ("convert", ConvertOptions)
    unknown = keywords.keys() - (kind.__annotations__.keys() - without)
    if unknown:
        raise TypeError(f"{caller}() got an unexpected keyword argument '{min(unknown)}' for {name}()")
    return name, kind


def _report(name: str, kind: type, paths: dict, given: dict, progress, suffix: str = "") -> dict:
    def run(given):
        return call(f"{name}{suffix}", _chosen(name, kind, paths, given), progress)

    return with_recipe_file(given, run)


def _chosen(name: str, kind: type, paths: dict, given: dict) -> dict:
    """The options of a call. ``paths`` has the input and the output."""
    places = {**_PATHS, **_PLACES.get(name, {})}
    chosen = options(name, kind, given, places, has_hub=name != "quantize")
    for path, value in paths.items():
        put(chosen, places[path], text_path(value))
    return chosen


def _written(name: str, kind: type, src, out, given) -> list[Path]:
    return _paths(_report(name, kind, {"src": src, "out": out}, given, given.get("progress")))


def _paths(report: dict) -> list[Path]:
    return [as_path(output["path"]) for output in report["outputs"]]


def _planned(file: dict) -> PlannedFile:
    tensors = {tensor["name"]: tensor["dtype"].lower() for tensor in file["tensors"]}
    name = os.path.basename(file["path"])
    return PlannedFile(name, file["type"].lower(), file["bytes"], file["bits_per_weight"], tensors)


_PATHS = {"src": "source", "out": "output.out"}
_PLAIN = {"allow_nonfinite": "plain.allow_nonfinite", "big_endian": "plain.big_endian"}

# Options of keywords that a call has elsewhere than `convert`.
_PLACES = {
    "quantize": _PLAIN,
    "convert_adapter": {**_PLAIN, "arch_as": "arch_as", "model_name": "model_name"},
    "convert_projector": {"model_name": "model_name"},
    "convert_vocab": {"big_endian": "big_endian", "out": "out", "overwrite": "force"},
}


def _is_gguf(path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False
