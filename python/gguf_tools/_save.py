"""Conversion of models in memory."""

from __future__ import annotations

from . import _native
from ._calls import as_path
from ._options import options, with_recipe_file
from ._progress import shown


def save(
    model,
    out,
    *,
    file_type=None,
    outtype=None,
    config=None,
    tokenizer=None,
    generation_config=None,
    name=None,
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
    model_name=None,
    pre=None,
    embed_tokenizer_json=False,
    equal_scores=False,
    arch_as=None,
    target_model_dir=None,
    mtp=None,
    dense_modules=False,
    repack=False,
    via=None,
    allow_nonfinite=False,
    big_endian=False,
    threads=None,
    overwrite=False,
    progress=None,
) -> list[Path]:
    """Converts a model in memory to GGUF files, without an intermediate checkpoint.

    Arrays are read in place, without a copy, unless they are on another device or not contiguous. Do not write to them
    during the call.

    Args:
        model: Model of transformers, or a state dict: arrays of torch or NumPy by the names that ``save_pretrained`` uses.
        out: File or folder to write, as in :func:`convert`.
        file_type: File type (:func:`types`) such as ``"q4_k_m"``, or a list of them, which are written in one pass. ``"auto"``
            is the float type of the checkpoint.
        outtype: The same as ``file_type``, by the name of gguf-py.
        config: Contents of ``config.json``, as a dict or a config of transformers. Default: the config of the model.
        tokenizer: Tokenizer of transformers, folder with tokenizer files, or a dict of file names and contents.
        generation_config: Contents of ``generation_config.json``. Default: that of the model.
        name: Name of the model if neither ``model_name`` nor the config states one.
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
        model_name: Name of the model. Default: from the checkpoint.
        pre: Name of the pre-tokenizer, if it is not recognized.
        embed_tokenizer_json: Store the tokenizer file in the metadata.
        equal_scores: Give all tokens of a llama tokenizer without scores the same score, like convert_hf_to_gguf.py.
        arch_as: Architecture or class name to use instead of that of the config.
        target_model_dir: Target model of a draft model.
        mtp: Multi-token prediction layers: ``"with"`` (the default), ``"without"`` or ``"only"``.
        dense_modules: Include the dense layers of a sentence-transformers model.
        repack: Keep quantized weights bit for bit if a type can hold them.
        via: Float type that weights are rounded to before they are quantized.
        allow_nonfinite: Convert NaNs and infinities instead of failing.
        big_endian: Write big-endian files.
        threads: Number of threads. Default: one per core. The files do not depend on it.
        overwrite: Overwrite existing files, and discard an interrupted run.
        progress: As in :func:`convert`.

    Returns:
        The paths of the files.

    Raises:
        GgufError: A tensor does not fit the config, or an option or the output is invalid.
        TypeError: An array has a type that checkpoints do not support.

    Example:
        >>> gt.save(model, "tuned-q8_0.gguf", file_type="q8_0", tokenizer=tokenizer)
    """
    given = locals()
    sources = [given.pop(keyword) for keyword in ("model", "config", "tokenizer", "generation_config", "name")]
    progress = given.pop("progress")
    import json

    from . import _memory

    loaded = _memory.load(*sources)

    def run(given):
        with shown(progress) as report:
            return json.loads(_native.save(*loaded, json.dumps(options(given)), report))

    return [as_path(output["path"]) for output in with_recipe_file(given, run)["outputs"]]
