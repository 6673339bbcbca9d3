"""Measurements of files on a text, and importance matrices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, overload

from ._calls import call, text_path, text_paths
from ._errors import GgufWarning
from ._events import receive
from ._options import Checking, CompareOptions, ImatrixOptions, PerplexityOptions, keywords, options
from ._results import Comparison, Continuations, Estimate, Imatrix, Perplexity, TensorDifference, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Unpack

    from ._annotations import Text
    from ._options import StrPath


def _text(text):
    """A path is a file; a str is the text itself."""
    if text is None:
        return None
    if isinstance(text, os.PathLike):
        return {"file": os.fspath(text)}
    if isinstance(text, str) and "\n" not in text and os.path.isfile(text):
        receive("warning", [f"read as the text itself, but a file has this name: {text!r}; pass Path({text!r}) to read the file"])
    return {"bytes": list(text.encode() if isinstance(text, str) else bytes(text))}


@keywords(PerplexityOptions)
def perplexity(file: StrPath, text: Text, **given: Unpack[PerplexityOptions]) -> Perplexity:
    """Measures the perplexity of a file on a text, as defined by llama.cpp.

    Args:
        file: The GGUF file, or any shard of a split model.
        text: The text itself (str or bytes), or the path of a file (:class:`os.PathLike`).

    Returns:
        The perplexity with its standard error.

    Raises:
        GgufError: The file cannot be run, or the text has fewer than two chunks.
        ValueError: ``activations`` is unknown.

    Example:
        >>> gt.perplexity("model-q4_k_m.gguf", Path("wiki.test.raw"), chunks=20).value
    """
    chosen = options("perplexity", PerplexityOptions, given, has_hub=False)
    found = call("perplexity", {"file": os.fspath(file), "text": _text(text), **chosen}, given.get("progress"))
    keys = ("perplexity", "perplexity_error", "mean_log_loss", "chunks", "tokens_counted")
    return Perplexity(*(found[key] for key in keys))


@overload
def compare(base: StrPath, others: StrPath, text: Text | None = None, **given: Unpack[CompareOptions]) -> Comparison: ...
@overload
def compare(
    base: StrPath, others: list[StrPath] | list[str] | list[Path] | tuple[StrPath, ...], text: Text | None = None,
    **given: Unpack[CompareOptions],
) -> list[Comparison]: ...
@keywords(CompareOptions)
def compare(base, others, text=None, **given):
    """Measures how much the predictions and tensors of files differ from those of their base.

    Args:
        base: The base: a GGUF file, or logits that ``save_logits`` or ``llama-perplexity`` saved.
        others: A file to compare with it, or a list of files, which are measured in one pass over the base.
        text: The text itself (str or bytes), or the path of a file (:class:`os.PathLike`). None if the base is a file of logits,
            or to compare only tensors.
        progress: Called with the number of finished chunks and of all chunks; for tensors, with bytes.

    Returns:
        A :class:`Comparison`, or a list of them if ``others`` is a list. A page or logits that cannot be written are reported as
        a warning, so that the measurements are not lost.

    Raises:
        GgufError: A file cannot be run, or the vocabularies differ.
        ValueError: ``activations`` is unknown.

    Example:
        >>> small, large = gt.compare("bf16.gguf", ["q4_k_m.gguf", "q8_0.gguf"], Path("wiki.test.raw"))
        >>> small.kl.value > large.kl.value
        True
    """
    chosen = options("compare", CompareOptions, given, has_hub=False)
    files = {"base": os.fspath(base), "files": text_paths(others), "text": _text(text)}
    report = call("compare", {**files, **chosen}, given.get("progress"))
    found = [_comparison(file) for file in report["files"]]
    return found[0] if isinstance(others, (str, os.PathLike)) else found


# Names in reports of the fields of a comparison that were measured on a text.
_PREDICTED = {"tokens": "n_positions", "probability_change": "p_diff"}


def _comparison(file: dict) -> Comparison:
    found, tensors, continuations = file["predictions"], file["tensors"], file["continuations"]

    def predicted(field):
        return None if found is None else _measured((file if field in file else found)[_PREDICTED.get(field, field)])

    def continued(of):
        return Continuations(**{key: _measured(value) for key, value in of.items()})

    return Comparison(
        file["file"], file["bytes"], file["bits_per_weight"], *(predicted(field) for field in Comparison._fields[3:16]),
        tensors=None if tensors is None else {row["name"]: _difference(row) for row in tensors["tensors"]},
        continuations=None if continuations is None else continued(continuations),
    )


def _measured(value):
    """A mean with its error as an :class:`Estimate`; other values as they are."""
    return Estimate(**value) if isinstance(value, dict) and value.keys() == {"value", "error"} else value


def _difference(row: dict) -> TensorDifference:
    base_type, type = row.pop("base_dtype").lower(), row.pop("dtype").lower()
    return TensorDifference(base_type=base_type, type=type, **row)


@keywords(ImatrixOptions)
def imatrix(
    file: StrPath | None, texts: Text | Sequence[Text] | None, out: StrPath, **given: Unpack[ImatrixOptions]
) -> Imatrix:
    """Computes the importance matrix of a model over texts, or merges matrices.

    Args:
        file: The GGUF file, usually of the type bf16 or f16. None to merge matrices only.
        texts: A text (str or bytes), the path of a file (:class:`os.PathLike`), or a list of these, whose sums are added. A file
            that ends in ``.jsonl`` is read as chats. None to merge matrices only.
        out: File to write.
        chunks: Maximum number of chunks of each text. Default: all.
        progress: Called with the number of finished chunks and of all chunks of a text.

    Returns:
        Facts about the file.

    Raises:
        GgufError: The file cannot be run, a text is shorter than a chunk, or the output exists.
        ValueError: An option is invalid.

    Example:
        >>> gt.imatrix("model-bf16.gguf", Path("calibration.txt"), "imatrix.gguf").entries
    """
    texts = [texts] if texts is None or isinstance(texts, (str, bytes, bytearray, os.PathLike)) else list(texts)
    if not texts:
        raise ValueError("texts: expected a text, found an empty list")
    if given.get("resume") and len(texts) > 1:
        raise ValueError("resume: expected one text")
    places = {"context": "context", "chunks": "chunks"}
    chosen = options("imatrix", ImatrixOptions, given, places, has_hub=False)
    chosen.update(file=text_path(file), output=os.fspath(out))
    import warnings

    for index, text in enumerate(texts):
        if index:
            chosen.update(merge=[os.fspath(out)], force=True)
        # Tensors without data are known after the last text.
        is_last = index == len(texts) - 1
        chosen["text"] = _text(text)
        with warnings.catch_warnings():
            if not is_last:
                warnings.simplefilter("ignore", GgufWarning)
            found = call("imatrix", chosen, given.get("progress"))
    not_covered = {tensor["tensor"]: tensor["experts"] for tensor in found["not_covered"]}
    return Imatrix(*(found[key] for key in ("output", "entries", "chunks", "context", "datasets")), not_covered)


@keywords(Checking)
def check(file: StrPath, text: Text, baseline: StrPath, **given: Unpack[Checking]) -> list[Verdict]:
    """Compares the metrics of a file with an earlier measurement, for tests that a file does not get worse.

    Args:
        file: The GGUF file.
        text: The text itself (str or bytes), or the path of a file (:class:`os.PathLike`). It must be the text of the baseline.
        baseline: File of the baseline (JSON).

    Returns:
        A :class:`Verdict` for each metric; an empty list with ``save``.

    Raises:
        GgufError: A file cannot be read, or the text differs from that of the baseline.
        ValueError: An option is invalid.

    Example:
        >>> gt.check("good.gguf", Path("wiki.test.raw"), "baseline.json", save=True, chunks=20)
        []
        >>> [verdict.is_worse for verdict in gt.check("new.gguf", Path("wiki.test.raw"), "baseline.json")]
        [False]
    """
    chosen = options("check", Checking, given, has_hub=False)
    files = {"file": os.fspath(file), "baseline": os.fspath(baseline), "text": _text(text)}
    rows = call("check", {**files, **chosen}, given.get("progress"))["metrics"]
    return [Verdict(row["what"], *(_measured(row[key]) for key in Verdict._fields[1:])) for row in rows]
