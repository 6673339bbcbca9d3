"""Conversions: checkpoints and GGUF files to GGUF files, and back."""

from __future__ import annotations

import os
from collections import namedtuple

from ._calls import as_path, call, hub, size, text_path
from ._options import options, with_recipe_file

PlannedFile = namedtuple("PlannedFile", "name type nbytes bits_per_weight tensors")
PlannedFile.__doc__ = """A file that a conversion would write.

Attributes:
    name: Name of the file.
    type: Its file type, such as ``q4_k_m``.
    nbytes: Its length in bytes.
    bits_per_weight: Mean number of bits for each weight, scales included.
    tensors: The type of each tensor by name.
"""


def convert(
    src,
    out,
    *,
    file_type=None,
    outtype=None,
    to="gguf",
    lora=(),
    lora_tokenizer=False,
    mmproj=False,
    mmproj_type=None,
    imatrix=None,
    missing_imatrix=None,
    include_weights=(),
    exclude_weights=(),
    tensor_types=(),
    output_tensor_type=None,
    token_embedding_type=None,
    leave_output_tensor=False,
    pure=False,
    prune_layers=(),
    recipe=None,
    save_recipe=None,
    metadata=(),
    header_slack=None,
    split_max_size=None,
    split_max_tensors=None,
    calibrate=(),
    calibration_tokens=None,
    statistics=None,
    rounding=None,
    eval_text=None,
    inputs_only=False,
    train_scales=False,
    no_verify=False,
    target_size=None,
    target_bpw=None,
    no_larger_than_type=None,
    allow_types=(),
    keep_types=False,
    model_name=None,
    pre=None,
    embed_tokenizer_json=False,
    equal_scores=False,
    arch_as=None,
    target_model_dir=None,
    config=None,
    mtp=None,
    dense_modules=False,
    mistral_format=False,
    unmasked_zeros=False,
    repack=False,
    fp8_as=None,
    via=None,
    allow_nonfinite=False,
    big_endian=False,
    threads=None,
    overwrite=False,
    resume=False,
    revision=None,
    token=None,
    cache_dir=None,
    endpoint=None,
    keep_downloads=False,
    progress=None,
) -> list[Path]:
    """Converts a checkpoint to GGUF files.

    Ctrl-C and an exception of ``progress`` stop the conversion. It then leaves no output, except with ``resume``.

    Args:
        src: Checkpoint folder, or a model of the Hugging Face Hub: ``hf://OWNER/MODEL[@REVISION]``, or ``OWNER/MODEL`` if there
            is no such folder. A model in the local cache is read from there; others are read over the network. For an image or
            video model, a file of weights, a folder or a diffusers pipeline.
        out: File to write, or a folder if it exists or ends with a separator. ``{ftype}`` in the name stands for the file type.
        file_type: File type (:func:`types`) such as ``"q4_k_m"``, or a list of them, which are written in one pass. ``"auto"``
            is the float type of the checkpoint.
        outtype: The same as ``file_type``, by the name of gguf-py.
        to: Format to write: ``"gguf"``, or ``"whisper.cpp"`` for Whisper models, with ``"f16"`` as the default type.
        lora: LoRA adapters to merge: a path, a list of paths or of ``(path, scale)``, or a dict of paths and scales.
        lora_tokenizer: Use the tokenizer and chat template of the adapter.
        mmproj: Also write the vision or audio projector.
        mmproj_type: File type of the projector.
        imatrix: Importance matrix file.
        missing_imatrix: Treatment of tensors without importance data: ``"error"``, ``"ones"``, ``"neighbour"`` or
            ``"raise-type"``.
        include_weights: Use importance data only for tensors whose name contains one of these texts.
        exclude_weights: Ignore importance data for tensors whose name contains one of these texts.
        tensor_types: Types of tensors by a regular expression of their names: ``{"ffn_down": "q6_k"}``. The first match wins.
        output_tensor_type: Type of ``output.weight``.
        token_embedding_type: Type of the token embeddings.
        leave_output_tensor: Do not quantize ``output.weight``.
        pure: Quantize all tensors to the main type of the file type.
        prune_layers: Layers to remove, counted from 0.
        recipe: Recipe that sets the type of each tensor: a file, or the dict of :func:`recipe`. Replaces ``file_type``.
        save_recipe: Recipe file to write.
        metadata: Metadata to set: ``{"general.name": "Tuned"}``. A value may be ``{"type": "u32", "value": 1}``.
        header_slack: Free space in the header, in bytes, for later edits in place.
        split_max_size: Limit of a shard, in bytes of tensor data or as a text such as ``"2GB"``.
        split_max_tensors: Limit of a shard in tensors.
        calibrate: Texts for a calibration, which improves the rounding. Files that end in ``.jsonl`` hold chats. ``"builtin"`` is a built-in
            text, and ``"self"`` is text drawn from the model itself.
        calibration_tokens: Number of tokens to use. Default: 16384.
        statistics: Folder in which the statistics of the texts are kept for later runs.
        rounding: Last step of the rounding: ``"descent"``, ``"feedback"``, ``"shrinkage"``, ``"scales"`` or ``"full"``.
        eval_text: Text to measure the calibrated files on. Default: the rest of the calibration texts.
        inputs_only: Do not use statistics of output gradients.
        train_scales: Train the scales of blocks against the base after rounding.
        no_verify: Do not measure the calibrated files.
        target_size: Choose the types of tensors for a file of this size, in bytes or as a text. Text models need ``calibrate`` or
            ``imatrix``.
        target_bpw: The same, as a number of bits per weight.
        no_larger_than_type: The same, as the size of a file of this type.
        allow_types: Types to choose from.
        keep_types: Keep the types of the file type, and only improve the rounding.
        model_name: Name of the model. Default: from the checkpoint.
        pre: Name of the pre-tokenizer, if it is not recognized.
        embed_tokenizer_json: Store the tokenizer file in the metadata.
        equal_scores: Give all tokens of a llama tokenizer without scores the same score, like convert_hf_to_gguf.py.
        arch_as: Architecture or class name to use instead of that of the config.
        target_model_dir: Target model of a draft model.
        config: Folder with the tokenizer files, and with config.json if the weights are a single file.
        mtp: Multi-token prediction layers: ``"with"`` (the default), ``"without"`` or ``"only"``.
        dense_modules: Include the dense layers of a sentence-transformers model.
        mistral_format: Read Mistral's own files if both layouts are present.
        unmasked_zeros: Read all-ones GPTQ zero points as llama.cpp does.
        repack: Keep quantized weights bit for bit if a type can hold them.
        fp8_as: Type of FP8 matrices in files of float types: ``"q8_0"``.
        via: Float type that weights are rounded to before they are quantized.
        allow_nonfinite: Convert NaNs and infinities instead of failing.
        big_endian: Write big-endian files.
        threads: Number of threads. Default: one per core. The files do not depend on it.
        overwrite: Overwrite existing files, and discard an interrupted run.
        resume: Resume an interrupted run, and keep the parts of this one if it is interrupted.
        revision: Branch, tag or commit of the model.
        token: Token of the Hub. Default: that of huggingface_hub. False for none.
        cache_dir: Cache of the Hub. Default: that of huggingface_hub.
        endpoint: Address of the Hub.
        keep_downloads: Store downloads in the cache.
        progress: Function that is called on this thread with the finished and the total amount of work of each stage. By
            default a terminal or notebook shows a tqdm bar if tqdm is installed; False shows none.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The input, an option or the output is invalid.
        ValueError: An argument is not one of the supported values.

    Example:
        >>> gt.convert("meta-llama/Llama-3.2-1B", "out/", file_type=["q4_k_m", "q8_0"], lora="my-adapter")
    """
    return _written("convert", locals())


def quantize(
    src,
    out,
    *,
    file_type=None,
    outtype=None,
    lora=(),
    allow_requantize=False,
    keep_split=False,
    imatrix=None,
    missing_imatrix=None,
    include_weights=(),
    exclude_weights=(),
    tensor_types=(),
    output_tensor_type=None,
    token_embedding_type=None,
    leave_output_tensor=False,
    pure=False,
    prune_layers=(),
    recipe=None,
    save_recipe=None,
    metadata=(),
    header_slack=None,
    split_max_size=None,
    split_max_tensors=None,
    calibrate=(),
    calibration_tokens=None,
    statistics=None,
    rounding=None,
    eval_text=None,
    inputs_only=False,
    train_scales=False,
    no_verify=False,
    target_size=None,
    target_bpw=None,
    no_larger_than_type=None,
    allow_types=(),
    keep_types=False,
    allow_nonfinite=False,
    big_endian=False,
    threads=None,
    overwrite=False,
    resume=False,
    progress=None,
) -> list[Path]:
    """Quantizes a GGUF file to other types, byte-identical to ``llama-quantize``.

    Args:
        src: GGUF file, or any shard of a split model.
        out: File or folder to write, as in :func:`convert`.
        file_type: File type (:func:`types`), or a list of them. ``"copy"`` keeps all tensors.
        outtype: The same as ``file_type``, by the name of gguf-py.
        lora: LoRA adapter files (GGUF) to merge: a path, a list of paths or of ``(path, scale)``, or a dict of paths and scales.
        allow_requantize: Quantize tensors that are already quantized. They lose precision twice.
        keep_split: Write as many shards as the input has.
        imatrix: Importance matrix file.
        missing_imatrix: Treatment of tensors without importance data: ``"error"``, ``"ones"``, ``"neighbour"`` or
            ``"raise-type"``.
        include_weights: Use importance data only for tensors whose name contains one of these texts.
        exclude_weights: Ignore importance data for tensors whose name contains one of these texts.
        tensor_types: Types of tensors by a regular expression of their names: ``{"ffn_down": "q6_k"}``. The first match wins.
        output_tensor_type: Type of ``output.weight``.
        token_embedding_type: Type of the token embeddings.
        leave_output_tensor: Do not quantize ``output.weight``.
        pure: Quantize all tensors to the main type of the file type.
        prune_layers: Layers to remove, counted from 0.
        recipe: Recipe that sets the type of each tensor: a file, or the dict of :func:`recipe`. Replaces ``file_type``.
        save_recipe: Recipe file to write.
        metadata: Metadata to set: ``{"general.name": "Tuned"}``. A value may be ``{"type": "u32", "value": 1}``.
        header_slack: Free space in the header, in bytes, for later edits in place.
        split_max_size: Limit of a shard, in bytes of tensor data or as a text such as ``"2GB"``.
        split_max_tensors: Limit of a shard in tensors.
        calibrate: Texts for a calibration, which improves the rounding. Files that end in ``.jsonl`` hold chats. ``"builtin"`` is a built-in
            text, and ``"self"`` is text drawn from the model itself.
        calibration_tokens: Number of tokens to use. Default: 16384.
        statistics: Folder in which the statistics of the texts are kept for later runs.
        rounding: Last step of the rounding: ``"descent"``, ``"feedback"``, ``"shrinkage"``, ``"scales"`` or ``"full"``.
        eval_text: Text to measure the calibrated files on. Default: the rest of the calibration texts.
        inputs_only: Do not use statistics of output gradients.
        train_scales: Train the scales of blocks against the base after rounding.
        no_verify: Do not measure the calibrated files.
        target_size: Choose the types of tensors for a file of this size, in bytes or as a text. Text models need ``calibrate`` or
            ``imatrix``.
        target_bpw: The same, as a number of bits per weight.
        no_larger_than_type: The same, as the size of a file of this type.
        allow_types: Types to choose from.
        keep_types: Keep the types of the file type, and only improve the rounding.
        allow_nonfinite: Convert NaNs and infinities instead of failing.
        big_endian: Write big-endian files.
        threads: Number of threads. Default: one per core. The files do not depend on it.
        overwrite: Overwrite existing files, and discard an interrupted run.
        resume: Resume an interrupted run, and keep the parts of this one if it is interrupted.
        progress: As in :func:`convert`.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The input, an option or the output is invalid.

    Example:
        >>> gt.quantize("model-bf16.gguf", "model-q3.gguf", file_type="q3_k_m", calibrate="texts.txt", target_size="2GB")
    """
    return _written("quantize", locals())


def plan(src, **keywords) -> list[PlannedFile]:
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
    name, given = _given("plan", src, keywords)
    report = _report(name, {**given, "progress": False}, "_plan")
    return [_planned(file) for file in report["outputs"]]


def plan_parts(plan, src, out, **keywords) -> None:
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
    name, given = _given("plan_parts", src, {"out": out, **keywords}, {"resume", "keep_downloads", "progress"})
    if isinstance(given.get("recipe"), dict):
        raise TypeError("recipe: expected a file, which the parts can read")
    call("plan_parts", {"plan": text_path(plan), "conversion": {"operation": name, "options": _chosen(name, given)}})


def part(
    plan,
    number,
    count,
    *,
    part_files=False,
    overwrite=False,
    threads=None,
    token=None,
    cache_dir=None,
    endpoint=None,
    progress=None,
) -> None:
    """Converts one part of a plan of :func:`plan_parts`. An interrupted part is resumed; nothing is done for a finished one.

    Args:
        plan: The plan.
        number: Number of the part, from 1.
        count: Number of parts, the same for all parts of a plan.
        part_files: Write the part to a separate file next to the output, for file systems where several machines cannot write
            one file. By default all parts write to the temporary file of the output.
        overwrite: Convert the part again.
        threads: Number of threads. Default: one per core. The files do not depend on it.
        token: Token of the Hub. Default: that of huggingface_hub. False for none.
        cache_dir: Cache of the Hub. Default: that of huggingface_hub.
        endpoint: Address of the Hub.
        progress: As in :func:`convert`.

    Raises:
        GgufError: The inputs differ from those of the plan, or the part cannot be written.

    Example:
        >>> gt.part("plan.json", 1, 2)
        >>> gt.part("plan.json", 2, 2)
    """
    worker = _worker(overwrite, threads, token, cache_dir, endpoint)
    given = {"plan": text_path(plan), "part": f"{number}/{count}", "part_files": part_files, "worker": worker}
    call("part", given, progress)


def assemble(
    plan, *, overwrite=False, threads=None, token=None, cache_dir=None, endpoint=None, progress=None
) -> list[Path]:
    """Checks all parts of a plan and completes the output, which is byte-identical to that of a single call.

    Args:
        plan: The plan.
        overwrite: Overwrite existing files.
        threads: Number of threads. Default: one per core.
        token: Token of the Hub. Default: that of huggingface_hub. False for none.
        cache_dir: Cache of the Hub. Default: that of huggingface_hub.
        endpoint: Address of the Hub.
        progress: As in :func:`convert`.

    Returns:
        The paths of the files.

    Raises:
        GgufError: A part is missing, damaged or of another plan, or an output exists.

    Example:
        >>> gt.assemble("plan.json")
    """
    worker = _worker(overwrite, threads, token, cache_dir, endpoint)
    return _paths(call("assemble", {"plan": text_path(plan), "worker": worker}, progress))


def convert_adapter(
    src,
    out,
    *,
    file_type=None,
    outtype=None,
    base=None,
    model_name=None,
    arch_as=None,
    allow_nonfinite=False,
    big_endian=False,
    threads=None,
    overwrite=False,
    revision=None,
    token=None,
    cache_dir=None,
    endpoint=None,
    keep_downloads=False,
    progress=None,
) -> list[Path]:
    """Converts a LoRA adapter of PEFT or mlx-lm to a GGUF adapter file. To merge it instead, use ``convert(lora=...)``.

    Args:
        src: Adapter folder, or an adapter of the Hub.
        out: File or folder to write, as in :func:`convert`.
        file_type: ``"f32"`` (the default), ``"f16"``, ``"bf16"`` or ``"q8_0"``, or a list of them.
        outtype: The same as ``file_type``, by the name of gguf-py.
        base: Folder or Hub model with the config of the base model. Default: the model that the adapter names, if it is a
            local folder.
        model_name: Name of the model. Default: from the checkpoint.
        arch_as: Architecture or class name to use instead of that of the config.
        allow_nonfinite: Convert NaNs and infinities instead of failing.
        big_endian: Write big-endian files.
        threads: Number of threads. Default: one per core. The files do not depend on it.
        overwrite: Overwrite existing files, and discard an interrupted run.
        revision: Branch, tag or commit of the model.
        token: Token of the Hub. Default: that of huggingface_hub. False for none.
        cache_dir: Cache of the Hub. Default: that of huggingface_hub.
        endpoint: Address of the Hub.
        keep_downloads: Store downloads in the cache.
        progress: As in :func:`convert`.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The input, an option or the output is invalid.

    Example:
        >>> gt.convert_adapter("my-adapter", "my-adapter.gguf", base="Llama-3.2-1B")
    """
    return _written("convert_adapter", locals())


def convert_projector(
    src,
    out,
    *,
    file_type=None,
    outtype=None,
    tensor_types=(),
    metadata=(),
    model_name=None,
    mistral_format=False,
    via=None,
    allow_nonfinite=False,
    big_endian=False,
    threads=None,
    overwrite=False,
    revision=None,
    token=None,
    cache_dir=None,
    endpoint=None,
    keep_downloads=False,
    progress=None,
) -> list[Path]:
    """Converts the vision or audio projector of a checkpoint, without the model. To write both, use ``convert(mmproj=True)``.

    Args:
        src: Checkpoint folder, or a model of the Hub.
        out: File or folder to write, as in :func:`convert`.
        file_type: File type such as ``"f16"``, or a list of them.
        outtype: The same as ``file_type``, by the name of gguf-py.
        tensor_types: Types of tensors by a regular expression of their names: ``{"ffn_down": "q6_k"}``. The first match wins.
        metadata: Metadata to set: ``{"general.name": "Tuned"}``. A value may be ``{"type": "u32", "value": 1}``.
        model_name: Name of the model. Default: from the checkpoint.
        mistral_format: Read Mistral's own files if both layouts are present.
        via: Float type that weights are rounded to before they are quantized.
        allow_nonfinite: Convert NaNs and infinities instead of failing.
        big_endian: Write big-endian files.
        threads: Number of threads. Default: one per core. The files do not depend on it.
        overwrite: Overwrite existing files, and discard an interrupted run.
        revision: Branch, tag or commit of the model.
        token: Token of the Hub. Default: that of huggingface_hub. False for none.
        cache_dir: Cache of the Hub. Default: that of huggingface_hub.
        endpoint: Address of the Hub.
        keep_downloads: Store downloads in the cache.
        progress: As in :func:`convert`.

    Returns:
        The paths of the files.

    Raises:
        GgufError: The input, an option or the output is invalid.

    Example:
        >>> gt.convert_projector("Qwen3-VL-4B", "mmproj.gguf", file_type="f16")
    """
    return _written("convert_projector", locals())


def convert_vocab(
    src,
    out,
    *,
    file_type=None,
    outtype=None,
    model_name=None,
    pre=None,
    embed_tokenizer_json=False,
    equal_scores=False,
    arch_as=None,
    target_model_dir=None,
    mistral_format=False,
    big_endian=False,
    overwrite=False,
    revision=None,
    token=None,
    cache_dir=None,
    endpoint=None,
) -> Path:
    """Writes a GGUF file with the metadata and tokenizer of a checkpoint, without weights.

    Args:
        src: Checkpoint folder, whose weights may be missing, or a model of the Hub.
        out: File to write, or a folder.
        file_type: File type that the metadata state. Default: that of the weights.
        outtype: The same as ``file_type``, by the name of gguf-py.
        model_name: Name of the model. Default: from the checkpoint.
        pre: Name of the pre-tokenizer, if it is not recognized.
        embed_tokenizer_json: Store the tokenizer file in the metadata.
        equal_scores: Give all tokens of a llama tokenizer without scores the same score, like convert_hf_to_gguf.py.
        arch_as: Architecture or class name to use instead of that of the config.
        target_model_dir: Target model of a draft model.
        mistral_format: Read Mistral's own files if both layouts are present.
        big_endian: Write big-endian files.
        overwrite: Overwrite existing files, and discard an interrupted run.
        revision: Branch, tag or commit of the model.
        token: Token of the Hub. Default: that of huggingface_hub. False for none.
        cache_dir: Cache of the Hub. Default: that of huggingface_hub.
        endpoint: Address of the Hub.

    Returns:
        The path of the file.

    Raises:
        GgufError: The input, an option or the output is invalid.

    Example:
        >>> gt.convert_vocab("Llama-3.2-1B", "vocab.gguf")
    """
    given = {**locals(), "progress": False}
    names = [given.pop(keyword) for keyword in ("file_type", "outtype")]
    given["stated_type"] = next((name for name in names if name is not None), None)
    return as_path(_report("convert_vocab", given)["output"])


def export(
    src, out, *, dtype="bf16", split_max_size=None, allow_nonfinite=False, overwrite=False, threads=None, progress=None
) -> Path:
    """Exports a GGUF file to a checkpoint folder in the layout of Hugging Face.

    Args:
        src: GGUF file, or any shard of a split model.
        out: Folder to write.
        dtype: Type of the weights: ``"bf16"``, ``"f16"`` or ``"f32"``.
        split_max_size: Limit of a shard, in bytes of tensor data or as a text such as ``"5GB"``.
        allow_nonfinite: Convert NaNs and infinities instead of failing.
        overwrite: Overwrite an existing folder.
        threads: Number of threads. Default: one per core.
        progress: As in :func:`convert`.

    Returns:
        The path of the folder.

    Raises:
        GgufError: The file cannot be read or exported, or the folder cannot be written.

    Example:
        >>> gt.export("model-q8_0.gguf", "model-hf")
    """
    given = {
        "source": text_path(src),
        "out": text_path(out),
        "dtype": dtype,
        "split_max_size": size(split_max_size),
        "allow_nonfinite": allow_nonfinite,
        "force": overwrite,
        "threads": threads,
    }
    return as_path(call("export", given, progress)["output"])


def recipe(
    file, output=None, *, overwrite=False, revision=None, token=None, cache_dir=None, endpoint=None
) -> dict:
    """Extracts the recipe of a GGUF file from its header: the type of each tensor, and settings.

    Args:
        file: GGUF file, or any shard of a split model. An address (``https://...`` or ``hf://OWNER/MODEL[@REVISION]/FILE``)
            works too; only the header is downloaded.
        output: Recipe file to write.
        overwrite: Overwrite an existing recipe file.
        revision: Branch, tag or commit of the model.
        token: Token of the Hub. Default: that of huggingface_hub. False for none.
        cache_dir: Cache of the Hub. Default: that of huggingface_hub.
        endpoint: Address of the Hub.

    Returns:
        The recipe, which the argument ``recipe`` of :func:`convert`, :func:`quantize` and :func:`save` takes.

    Raises:
        GgufError: The file cannot be read, or its types match no file type.

    Example:
        >>> gt.convert("my-tune", "mine.gguf", recipe=gt.recipe("hf://OWNER/MODEL-GGUF/MODEL-Q4_K_M.gguf"))
    """
    access = hub(revision, token, cache_dir, endpoint)
    return call("recipe", {"file": os.fsdecode(file), "output": text_path(output), "force": overwrite, "hub": access})


def _given(caller: str, src, keywords: dict, without: set | frozenset = frozenset()) -> tuple[str, dict]:
    """The call for an input, and its arguments. ``keywords`` may have all of them except ``without``."""
    name, function = ("quantize", quantize) if _is_gguf(src) else ("convert", convert)
    defaults = {key: value for key, value in function.__kwdefaults__.items() if key not in without}
    unknown = keywords.keys() - defaults.keys() - {"out"}
    if unknown:
        raise TypeError(f"{caller}() got an unexpected keyword argument '{min(unknown)}' for {name}()")
    return name, {"src": src, **defaults, **keywords}


def _report(name: str, given: dict, suffix: str = "") -> dict:
    given = dict(given)
    progress = given.pop("progress")
    return with_recipe_file(given, lambda given: call(f"{name}{suffix}", _chosen(name, given), progress))


def _chosen(name: str, given: dict) -> dict:
    return options(given, _PLACES.get(name), has_hub=name != "quantize")


def _worker(overwrite, threads, token, cache_dir, endpoint) -> dict:
    """The options of a process that executes a plan."""
    return {"force": overwrite, "threads": threads, "hub": hub(None, token, cache_dir, endpoint)}


def _written(name: str, given: dict) -> list[Path]:
    return _paths(_report(name, given))


def _paths(report: dict) -> list[Path]:
    return [as_path(output["path"]) for output in report["outputs"]]


def _planned(file: dict) -> PlannedFile:
    tensors = {tensor["name"]: tensor["dtype"].lower() for tensor in file["tensors"]}
    name = os.path.basename(file["path"])
    return PlannedFile(name, file["type"].lower(), file["bytes"], file["bits_per_weight"], tensors)


# Options of keywords that a call has elsewhere than `convert`.
_PLACES = {
    "quantize": {"allow_nonfinite": "allow_nonfinite", "big_endian": "big_endian"},
    "convert_adapter": {
        "allow_nonfinite": "allow_nonfinite",
        "arch_as": "arch_as",
        "big_endian": "big_endian",
        "model_name": "model_name",
    },
    "convert_projector": {"model_name": "model_name"},
    "convert_vocab": {
        "big_endian": "big_endian",
        "out": "out",
        "overwrite": "force",
    },
}


def _is_gguf(path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False
