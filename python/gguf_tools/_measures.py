"""Measurements of files on a text, and importance matrices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, overload

from ._calls import call, text_path, text_paths
from ._errors import GgufWarning
from ._options import Checking, CompareOptions, ImatrixOptions, PerplexityOptions, keywords, options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Literal

    from ._annotations import Activations, Text
    from ._options import Lora, Progress, StrPath


class Perplexity(NamedTuple):
    """A perplexity.

    Attributes:
        value: The perplexity.
        error: Its standard error; None if too few tokens were counted.
        mean_loss: Mean negative log-likelihood of a token in nats, of which ``value`` is the exponential.
        chunks: Number of chunks that were measured.
        tokens: Number of tokens that were counted.
    """

    value: float
    error: float | None
    mean_loss: float
    chunks: int
    tokens: int


class Estimate(NamedTuple):
    """A mean.

    Attributes:
        value: The mean.
        error: Its standard error.
    """

    value: float
    error: float


class Comparison(NamedTuple):
    """Differences of a file from its base. Values that were not measured are ``None``.

    Attributes:
        file: The path.
        nbytes: Size of the file in bytes, all shards included.
        bits_per_weight: Mean number of bits for each weight.
        tokens: Number of predictions that were compared.
        base_perplexity: Perplexity of the base.
        perplexity: Perplexity of the file.
        perplexity_ratio: Perplexity of the file divided by that of the base.
        kl: Mean Kullback-Leibler divergence from the base, in nats.
        kl_difference: ``kl`` minus that of the first file, paired by chunk. None for the first file.
        kl_quantiles: Distribution of the divergence by name, such as ``"median"`` and ``"maximum"``.
        same_top: Share of predictions with the same most likely token.
        same_top_k: Share of the base's most likely tokens that are among those of the file.
        correlation: Correlation of the log-likelihoods.
        probability_change: Mean change of the probability of the token that follows in the text.
        kl_by_position: Mean divergence at each counted position of a chunk.
        kl_by_chunk: Mean divergence in each chunk.
        tensors: A :class:`TensorDifference` for each tensor by name.
        continuations: Agreement of greedy :class:`Continuations`.
    """

    file: str
    nbytes: int
    bits_per_weight: float
    tokens: int | None
    base_perplexity: Estimate | None
    perplexity: Estimate | None
    perplexity_ratio: Estimate | None
    kl: Estimate | None
    kl_difference: Estimate | None
    kl_quantiles: dict[str, float] | None
    same_top: Estimate | None
    same_top_k: Estimate | None
    correlation: float | None
    probability_change: Estimate | None
    kl_by_position: list[float] | None
    kl_by_chunk: list[float] | None
    tensors: dict[str, TensorDifference] | None
    continuations: Continuations | None


class Continuations(NamedTuple):
    """Agreement of the greedy continuations of a file with those of its base.

    Attributes:
        n_prompts: Number of prompts.
        prompt_tokens: Tokens of a prompt (64).
        continuation_tokens: Tokens of a continuation (32).
        same: Share of prompts whose continuations are the same.
        tokens_before_difference: Mean number of tokens before the first difference; ``continuation_tokens`` for equal continuations.
    """

    n_prompts: int
    prompt_tokens: int
    continuation_tokens: int
    same: Estimate
    tokens_before_difference: Estimate


class TensorDifference(NamedTuple):
    """Difference of a tensor from that of the base.

    Attributes:
        name: Name of the tensor.
        base_type: Its type in the base.
        type: Its type in the file.
        elements: Number of elements.
        rmse: Root mean square of the differences.
        base_rms: Root mean square of the base's elements.
        snr_db: Signal-to-noise ratio in decibels; None if nothing differs.
        cosine: Cosine of the angle between both tensors.
        max_error: Largest difference.
    """

    name: str
    base_type: str
    type: str
    elements: int
    rmse: float
    base_rms: float
    snr_db: float | None
    cosine: float
    max_error: float


class Imatrix(NamedTuple):
    """An importance matrix that was written.

    Attributes:
        path: The file.
        entries: Number of entries, one for each matrix of the model.
        chunks: Number of chunks that were read.
        context: Tokens of a chunk.
        datasets: Names of the texts.
        not_covered: Tensors without data by name, each with its experts without data; an empty list stands for the whole tensor.
    """

    path: str
    entries: int
    chunks: int
    context: int
    datasets: list[str]
    not_covered: dict[str, list[int]]


class Verdict(NamedTuple):
    """A metric of a file and its baseline.

    Attributes:
        metric: ``"perplexity"`` or ``"divergence"`` (KL divergence from the base).
        value: Value of the file.
        baseline: Value in the baseline.
        difference: Mean of the differences from the baseline over chunks, of the KL divergence or of the negative log-likelihood, in
            nats; None if the baseline has no values of chunks.
        highest: The highest value that the margin allows, or None for a metric without a limit.
        is_worse: True if the value exceeds it.
    """

    metric: Literal["perplexity", "divergence"]
    value: float
    baseline: float
    difference: Estimate | None
    highest: float | None
    is_worse: bool


def _text(text):
    """A path is a file; a str is the text itself."""
    if text is None:
        return None
    if isinstance(text, os.PathLike):
        return {"file": os.fspath(text)}
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
    return Perplexity(
        value=found["perplexity"],
        error=found["perplexity_error"],
        mean_loss=found["mean_log_loss"],
        chunks=found["chunks"],
        tokens=found["tokens_counted"],
    )


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


def _comparison(file: dict) -> Comparison:
    found = file["predictions"]

    def estimate(key):
        return None if found is None else Estimate(found[key]["value"], found[key]["error"])

    def value(key):
        return None if found is None else found[key]

    def continued(of):
        means = {key: Estimate(of[key]["value"], of[key]["error"]) for key in ("same", "tokens_before_difference")}
        return Continuations(**{**of, **means})

    tensors, continuations, difference = file["tensors"], file["continuations"], file["kl_difference"]
    return Comparison(
        file=file["file"],
        nbytes=file["bytes"],
        bits_per_weight=file["bits_per_weight"],
        tokens=value("n_positions"),
        base_perplexity=estimate("base_perplexity"),
        perplexity=estimate("perplexity"),
        perplexity_ratio=estimate("perplexity_ratio"),
        kl=estimate("kl"),
        kl_difference=None if difference is None else Estimate(**difference),
        kl_quantiles=value("kl_quantiles"),
        same_top=estimate("same_top"),
        same_top_k=estimate("same_top_k"),
        correlation=value("correlation"),
        probability_change=estimate("p_diff"),
        kl_by_position=None if found is None else file["kl_by_position"],
        kl_by_chunk=None if found is None else file["kl_by_chunk"],
        tensors=None if tensors is None else {row["name"]: _difference(row) for row in tensors["tensors"]},
        continuations=None if continuations is None else continued(continuations),
    )


def _difference(row: dict) -> TensorDifference:
    row = dict(row)
    row.update(base_type=row.pop("base_dtype").lower(), type=row.pop("dtype").lower())
    return TensorDifference(**row)


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
        with warnings.catch_warnings():
            if not is_last:
                warnings.simplefilter("ignore", GgufWarning)
            found = call("imatrix", {**chosen, "text": _text(text)}, given.get("progress"))
    return Imatrix(
        path=found["output"],
        entries=found["entries"],
        chunks=found["chunks"],
        context=found["context"],
        datasets=found["datasets"],
        not_covered={tensor["tensor"]: tensor["experts"] for tensor in found["not_covered"]},
    )


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
    for row in rows:
        row["difference"] = row["difference"] and Estimate(**row["difference"])
    return [Verdict(row["what"], *(row[key] for key in Verdict._fields[1:])) for row in rows]
