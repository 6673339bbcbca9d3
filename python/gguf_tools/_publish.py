"""Model repositories."""

from __future__ import annotations

import os

from ._calls import as_path, call, hub, is_default, size, sizes, text_path, text_paths, texts


def publish(
    src,
    folder,
    *,
    file_type=(),
    ladder=None,
    fit=(),
    fit_context=None,
    calibrate=(),
    calibration_tokens=None,
    no_calibrate=False,
    target_size=(),
    remove=(),
    chat_template=None,
    model_name=None,
    draft=(),
    base_type=None,
    imatrix_text=(),
    imatrix_chunks=None,
    no_imatrix=False,
    eval_text=(),
    chunks=None,
    context=None,
    drop_dominated=False,
    split_max_size=None,
    base_model=None,
    repo=None,
    quantized_by=None,
    replace_types=False,
    overwrite=False,
    threads=None,
    activations=None,
    revision=None,
    token=None,
    cache_dir=None,
    endpoint=None,
    progress=None,
) -> Path:
    """Builds or updates a model repository: GGUF files, importance matrix, measurements, checksums and a model card.

    An interrupted call resumes, and a changed call repeats only the affected stages. Nothing is uploaded.

    Args:
        src: Checkpoint folder, model of the Hub, or GGUF file.
        folder: Folder to create or update.
        file_type: File types to write.
        ladder: Predefined set of types: ``"small"`` (the default) or ``"full"``.
        fit: Memory sizes, in bytes or as texts such as ``"8GB"``; the largest type that fits in each is written.
        fit_context: Tokens of context that ``fit`` includes. Default: 8192, or less if the model was trained for less.
        calibrate: Texts or chats to optimize types and rounding of each file on. ``"builtin"`` is a built-in text.
        calibration_tokens: Tokens to use of all calibration texts together. Default: 16,384.
        no_calibrate: Do not calibrate, although an earlier run did.
        target_size: Sizes, in bytes or as texts such as ``"5GB"``; for each, one more file whose types are chosen for
            it. Needs ``calibrate``.
        remove: Files of earlier runs to remove, by their type in the card.
        chat_template: File with the chat template, which replaces the one of the source. Later runs keep its text;
            ``"source"`` restores the template of the source.
        model_name: Name of the model.
        draft: Checkpoint folders of draft models.
        base_type: Type of the file that the others are made from.
        imatrix_text: Texts or chats for the importance matrix. Default: a small built-in text.
        imatrix_chunks: Limit of the chunks of ``imatrix_text``.
        no_imatrix: Do not use an importance matrix.
        eval_text: Texts to measure the files on. Default: a small built-in text.
        chunks: Limit of the chunks of ``eval_text``. Default: 40.
        context: Tokens of a chunk. Default: 512.
        drop_dominated: Omit files that are both larger and worse than another file.
        split_max_size: Limit of a shard. Default: 48 GB.
        base_model: Base model in the card, as OWNER/NAME.
        repo: Published repository, as OWNER/NAME, for the commands in the card.
        quantized_by: Publisher in the card.
        replace_types: Remove the types of earlier runs that are not requested again.
        overwrite: Overwrite files that were not written by an earlier run, or changed since.
        threads: Number of threads. Default: one per core.
        activations: Precision of activations: ``"f32"`` or ``"rounded"``.
        revision: Branch, tag or commit of the model.
        token: Token of the Hub. Default: that of huggingface_hub. False for none.
        cache_dir: Cache of the Hub. Default: that of huggingface_hub.
        endpoint: Address of the Hub.
        progress: As in :func:`convert`.

    Returns:
        The path of the folder.

    Raises:
        GgufError: The input cannot be read, the folder must not be written to, or options contradict each other.

    Example:
        >>> gt.publish("my-tune", "my-tune-GGUF", ladder="full", quantized_by="me")
    """
    given = {
        "types": texts(file_type),
        "ladder": ladder,
        "fit": sizes(fit),
        "fit_context": fit_context,
        "calibrate": text_paths(calibrate),
        "calibration_tokens": calibration_tokens,
        "no_calibrate": no_calibrate,
        "target_size": sizes(target_size),
        "remove": texts(remove),
        "chat_template": text_path(chat_template),
        "model_name": model_name,
        "draft": text_paths(draft),
        "base_type": base_type,
        "imatrix_text": text_paths(imatrix_text),
        "imatrix_chunks": imatrix_chunks,
        "no_imatrix": no_imatrix,
        "eval_text": text_paths(eval_text),
        "chunks": chunks,
        "context": context,
        "drop_dominated": drop_dominated,
        "split_max_size": size(split_max_size),
        "base_model": base_model,
        "repo": repo,
        "quantized_by": quantized_by,
        "replace_types": replace_types,
        "force": overwrite,
        "threads": threads,
        "activations": activations,
    }
    given = {key: value for key, value in given.items() if not is_default(value)}
    src, folder = os.fsdecode(src), os.fsdecode(folder)
    access = hub(revision, token, cache_dir, endpoint)
    call("publish", {"options": {"src": src, "dir": folder, **given}, "hub": access}, progress)
    return as_path(folder)
