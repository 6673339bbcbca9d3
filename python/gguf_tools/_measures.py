"""Measurements of files on a text, and importance matrices."""

from __future__ import annotations

import os
from collections import namedtuple

from ._calls import call, stated, text_path, text_paths
from ._errors import GgufWarning
from ._options import adapters

Perplexity = namedtuple("Perplexity", "value error mean_loss chunks tokens")
Perplexity.__doc__ = """A perplexity.

Attributes:
    value: The perplexity.
    error: Its standard error; None if too few tokens were counted.
    mean_loss: Mean negative log-likelihood of a token in nats, of which ``value`` is the exponential.
    chunks: Number of chunks that were measured.
    tokens: Number of tokens that were counted.
"""

Estimate = namedtuple("Estimate", "value error")
Estimate.__doc__ = """A mean.

Attributes:
    value: The mean.
    error: Its standard error.
"""

Comparison = namedtuple(
    "Comparison",
    "file nbytes bits_per_weight tokens base_perplexity perplexity perplexity_ratio kl kl_quantiles same_top same_top_k "
    "correlation probability_change kl_by_position kl_by_chunk tensors continuations",
)
Comparison.__doc__ = """Differences of a file from its base. Values that were not measured are ``None``.

Attributes:
    file: The path.
    nbytes: Size of the file in bytes, all shards included.
    bits_per_weight: Mean number of bits for each weight.
    tokens: Number of predictions that were compared.
    base_perplexity: Perplexity of the base.
    perplexity: Perplexity of the file.
    perplexity_ratio: Perplexity of the file divided by that of the base.
    kl: Mean Kullback-Leibler divergence from the base, in nats.
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

Continuations = namedtuple(
    "Continuations", "n_prompts prompt_tokens continuation_tokens same tokens_before_difference"
)
Continuations.__doc__ = """Agreement of the greedy continuations of a file with those of its base.

Attributes:
    n_prompts: Number of prompts.
    prompt_tokens: Tokens of a prompt (64).
    continuation_tokens: Tokens of a continuation (32).
    same: Share of prompts whose continuations are the same.
    tokens_before_difference: Mean number of tokens before the first difference; ``continuation_tokens`` for equal continuations.
"""

TensorDifference = namedtuple(
    "TensorDifference", "name base_type type elements rmse base_rms snr_db cosine max_error"
)
TensorDifference.__doc__ = """Difference of a tensor from that of the base.

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

Imatrix = namedtuple("Imatrix", "path entries chunks context datasets not_covered")
Imatrix.__doc__ = """An importance matrix that was written.

Attributes:
    path: The file.
    entries: Number of entries, one for each matrix of the model.
    chunks: Number of chunks that were read.
    context: Tokens of a chunk.
    datasets: Names of the texts.
    not_covered: Tensors without data by name, each with its experts without data; an empty list stands for the whole tensor.
"""

Verdict = namedtuple("Verdict", "metric value baseline highest is_worse")
Verdict.__doc__ = """A metric of a file and its baseline.

Attributes:
    metric: ``"perplexity"`` or ``"divergence"`` (KL divergence from the base).
    value: Value of the file.
    baseline: Value in the baseline.
    highest: The highest value that the margin allows, or None for a metric without a limit.
    is_worse: True if the value exceeds it.
"""


def _text(text):
    """A path is a file; a str is the text itself."""
    if text is None:
        return None
    if isinstance(text, os.PathLike):
        return {"file": os.fspath(text)}
    return {"bytes": list(text.encode() if isinstance(text, str) else bytes(text))}


def _run(threads, activations, lora) -> dict:
    return stated({"threads": threads, "activations": activations, "adapters": adapters(lora)})


def perplexity(
    file, text, *, context=512, chunks=None, stride=None, lora=(), threads=None, activations="f32", progress=None
) -> Perplexity:
    """Measures the perplexity of a file on a text, as defined by llama.cpp.

    Args:
        file: The GGUF file, or any shard of a split model.
        text: The text itself (str or bytes), or the path of a file (:class:`os.PathLike`).
        context: Tokens of a chunk.
        chunks: Maximum number of chunks. Default: all.
        stride: Tokens between the beginnings of overlapping chunks, of which only the last ones are counted. Default: chunks do
            not overlap.
        lora: LoRA adapter files (GGUF) to apply while the model runs, as in :class:`Model`.
        threads: Number of threads. Default: one per core.
        activations: ``"f32"`` for exact activations, or ``"rounded"`` to round them as llama.cpp's CPU kernels do.
        progress: Called with the number of finished chunks and of all chunks.

    Returns:
        The perplexity with its standard error.

    Raises:
        GgufError: The file cannot be run, or the text has fewer than two chunks.
        ValueError: ``activations`` is unknown.

    Example:
        >>> gt.perplexity("model-q4_k_m.gguf", Path("wiki.test.raw"), chunks=20).value
    """
    options = {
        "file": os.fspath(file),
        "text": _text(text),
        "chunks": {"context": context, "n_chunks": chunks, "stride": stride},
        "run": _run(threads, activations, lora),
    }
    found = call("perplexity", options, progress)
    return Perplexity(
        value=found["perplexity"],
        error=found["perplexity_error"],
        mean_loss=found["mean_log_loss"],
        chunks=found["windows"],
        tokens=found["tokens_counted"],
    )


def compare(
    base,
    others,
    text=None,
    *,
    context=512,
    chunks=None,
    continuations=None,
    top_tokens=10,
    tensors=False,
    html=None,
    save_logits=None,
    overwrite=False,
    lora=(),
    threads=None,
    activations="f32",
    progress=None,
):
    """Measures how much the predictions and tensors of files differ from those of their base.

    Args:
        base: The base: a GGUF file, or logits that ``save_logits`` or ``llama-perplexity`` saved.
        others: A file to compare with it, or a list of files, which are measured in one pass over the base.
        text: The text itself (str or bytes), or the path of a file (:class:`os.PathLike`). None if the base is a file of logits,
            or to compare only tensors.
        context: Tokens of a chunk.
        chunks: Maximum number of chunks. Default: all.
        continuations: Number of prompts that all models continue greedily. The text is divided into as many parts, and the first
            64 tokens of each are continued by 32 tokens. Default: none.
        top_tokens: Number of most likely tokens that are compared as sets.
        tensors: Measure the quantization error of each tensor too.
        html: Page with charts to write.
        save_logits: File for the logits of the base.
        overwrite: Overwrite existing outputs.
        lora: LoRA adapter files (GGUF) to apply while the model runs, as in :class:`Model`.
        threads: Number of threads. Default: one per core.
        activations: ``"f32"`` for exact activations, or ``"rounded"`` to round them as llama.cpp's CPU kernels do.
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
    is_one = isinstance(others, (str, os.PathLike))
    options = {
        "base": os.fspath(base),
        "files": text_paths(others),
        "text": _text(text),
        "chunks": {"context": context, "n_chunks": chunks, "stride": None},
        "continuations": continuations,
        "top_tokens": top_tokens,
        "tensors": tensors,
        "html": text_path(html),
        "save_logits": text_path(save_logits),
        "force": overwrite,
        "run": _run(threads, activations, lora),
    }
    report = call("compare", options, progress)
    found = [_comparison(file) for file in report["files"]]
    return found[0] if is_one else found


def _comparison(file: dict) -> Comparison:
    found = file["predictions"]

    def estimate(key):
        return None if found is None else Estimate(found[key]["value"], found[key]["error"])

    def value(key):
        return None if found is None else found[key]

    def continued(of):
        means = {key: Estimate(of[key]["value"], of[key]["error"]) for key in ("same", "tokens_before_difference")}
        return Continuations(**{**of, **means})

    tensors, continuations = file["tensors"], file["continuations"]
    return Comparison(
        file=file["file"],
        nbytes=file["bytes"],
        bits_per_weight=file["bits_per_weight"],
        tokens=value("n_positions"),
        base_perplexity=estimate("base_perplexity"),
        perplexity=estimate("perplexity"),
        perplexity_ratio=estimate("perplexity_ratio"),
        kl=estimate("kl"),
        kl_quantiles=value("kl_quantiles"),
        same_top=estimate("same_top"),
        same_top_k=estimate("same_top_k"),
        correlation=value("correlation"),
        probability_change=estimate("p_diff"),
        kl_by_position=None if found is None else file["kl_by_position"],
        kl_by_chunk=None if found is None else file["kl_by_window"],
        tensors=None if tensors is None else {row["name"]: _difference(row) for row in tensors["tensors"]},
        continuations=None if continuations is None else continued(continuations),
    )


def _difference(row: dict) -> TensorDifference:
    row = dict(row)
    row.update(base_type=row.pop("base_dtype").lower(), type=row.pop("dtype").lower())
    return TensorDifference(**row)


def imatrix(
    file,
    texts,
    out,
    *,
    context=512,
    chunks=None,
    process_output=False,
    format="gguf",
    merge=(),
    save_every=None,
    resume=False,
    overwrite=False,
    lora=(),
    threads=None,
    activations="f32",
    progress=None,
) -> Imatrix:
    """Computes the importance matrix of a model over texts, or merges matrices.

    Args:
        file: The GGUF file, usually of the type bf16 or f16. None to merge matrices only.
        texts: A text (str or bytes), the path of a file (:class:`os.PathLike`), or a list of these, whose sums are added. A file
            that ends in ``.jsonl`` is read as chats. None to merge matrices only.
        out: File to write.
        context: Tokens of a chunk.
        chunks: Maximum number of chunks of each text. Default: all.
        process_output: Include the output matrix.
        format: ``"gguf"``, or ``"dat"`` for the format of older programs.
        merge: Existing matrices of the same model to add.
        save_every: Number of chunks between saves of the output.
        resume: Continue an interrupted run over one text.
        overwrite: Overwrite an existing file.
        lora: LoRA adapter files (GGUF) to apply while the model runs, as in :class:`Model`.
        threads: Number of threads. Default: one per core.
        activations: ``"f32"`` for exact activations, or ``"rounded"`` to round them as llama.cpp's CPU kernels do.
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
    if resume and len(texts) > 1:
        raise ValueError("resume: expected one text")
    options = {
        "file": text_path(file),
        "output": os.fspath(out),
        "format": format,
        "context": context,
        "chunks": chunks,
        "process_output": process_output,
        "merge": text_paths(merge),
        "save_every": save_every,
        "resume": resume,
        "force": overwrite,
        "run": _run(threads, activations, lora),
    }
    import warnings

    for index, text in enumerate(texts):
        if index:
            options.update(merge=[os.fspath(out)], force=True)
        # Tensors without data are known after the last text.
        is_last = index == len(texts) - 1
        with warnings.catch_warnings():
            if not is_last:
                warnings.simplefilter("ignore", GgufWarning)
            found = call("imatrix", {**options, "text": _text(text)}, progress)
    return Imatrix(
        path=found["output"],
        entries=found["entries"],
        chunks=found["windows"],
        context=found["context"],
        datasets=found["datasets"],
        not_covered={tensor["tensor"]: tensor["experts"] for tensor in found["not_covered"]},
    )


def check(
    file,
    text,
    baseline,
    *,
    base=None,
    save=False,
    overwrite=False,
    context=None,
    chunks=None,
    perplexity_margin=None,
    divergence_margin=None,
    threads=None,
    activations=None,
    progress=None,
) -> list:
    """Compares the metrics of a file with an earlier measurement, for tests that a file does not get worse.

    Args:
        file: The GGUF file.
        text: The text itself (str or bytes), or the path of a file (:class:`os.PathLike`). It must be the text of the baseline.
        baseline: File of the baseline (JSON).
        base: The file that ``file`` was made from. With it, the KL divergence is checked, and the perplexity only if it has a
            margin.
        save: Measure and write a new baseline instead.
        overwrite: Overwrite an existing baseline.
        context: Tokens of a chunk, with ``save``. Default: 512.
        chunks: Maximum number of chunks, with ``save``. Default: all.
        perplexity_margin: Percent by which the perplexity may rise. Default: that of the baseline. A new baseline has 0.1, or no
            limit with ``base``.
        divergence_margin: Percent by which the KL divergence may rise. Default: that of the baseline, or 2.
        threads: Number of threads. Default: one per core.
        activations: ``"f32"`` or ``"rounded"``. Default: that of the baseline.
        progress: Called with the number of finished chunks and of all chunks.

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
    options = {
        "file": os.fspath(file),
        "baseline": os.fspath(baseline),
        "text": _text(text),
        "base": text_path(base),
        "save": save,
        "force": overwrite,
        "context": context,
        "chunks": chunks,
        "perplexity_margin": perplexity_margin,
        "divergence_margin": divergence_margin,
        "threads": threads,
        "activations": activations,
    }
    rows = call("check", options, progress)
    return [Verdict(row["what"], *(row[key] for key in Verdict._fields[1:])) for row in rows]
