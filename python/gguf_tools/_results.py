"""Results of calls. A field has its documentation as its second annotation."""

from typing import Annotated, Any, Literal, NamedTuple, Optional, TypeVar

_T = TypeVar("_T", bound=type)


def _documented(result: _T) -> _T:
    """Adds the fields to the docstring."""
    fields = (f"\n    {name}: {kind.__metadata__[0]}" for name, kind in result.__annotations__.items())
    result.__doc__ = f"{result.__doc__}\n\nAttributes:{''.join(fields)}"
    return result


class Report(dict[str, Any]):
    """A result as a dict, whose keys are attributes too: ``report.good`` is ``report["good"]``. ``json.dumps(report)`` is its JSON.
    Keys that are methods of a dict, such as ``keys``, need brackets."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"the report has no {name!r}; it has {', '.join(self)}")


@_documented
class PlannedFile(NamedTuple):
    """A file that a conversion would write."""

    name: Annotated[str, "Name of the file."]
    type: Annotated[str, "Its file type, such as ``q4_k_m``."]
    nbytes: Annotated[int, "Its length in bytes."]
    bits_per_weight: Annotated[float, "Mean number of bits for each weight, scales included."]
    tensors: Annotated[dict[str, str], "The type of each tensor by name."]


@_documented
class Perplexity(NamedTuple):
    """A perplexity."""

    value: Annotated[float, "The perplexity."]
    error: Annotated[Optional[float], "Its standard error; None if too few tokens were counted."]
    mean_loss: Annotated[float, "Mean negative log-likelihood of a token in nats, of which ``value`` is the exponential."]
    chunks: Annotated[int, "Number of chunks that were measured."]
    tokens: Annotated[int, "Number of tokens that were counted."]


@_documented
class Estimate(NamedTuple):
    """A mean."""

    value: Annotated[float, "The mean."]
    error: Annotated[float, "Its standard error."]


@_documented
class Comparison(NamedTuple):
    """Differences of a file from its base. Values that were not measured are ``None``."""

    file: Annotated[str, "The path."]
    nbytes: Annotated[int, "Size of the file in bytes, all shards included."]
    bits_per_weight: Annotated[float, "Mean number of bits for each weight."]
    tokens: Annotated[Optional[int], "Number of predictions that were compared."]
    base_perplexity: Annotated[Optional[Estimate], "Perplexity of the base."]
    perplexity: Annotated[Optional[Estimate], "Perplexity of the file."]
    perplexity_ratio: Annotated[Optional[Estimate], "Perplexity of the file divided by that of the base."]
    kl: Annotated[Optional[Estimate], "Mean Kullback-Leibler divergence from the base, in nats."]
    kl_difference: Annotated[Optional[Estimate],
        "``kl`` minus that of the first file, paired by chunk. None for the first file."]
    kl_quantiles: Annotated[
        Optional[dict[str, float]], 'Distribution of the divergence by name, such as ``"median"`` and ``"maximum"``.']
    same_top: Annotated[Optional[Estimate], "Share of predictions with the same most likely token."]
    same_top_k: Annotated[Optional[Estimate], "Share of the base's most likely tokens that are among those of the file."]
    correlation: Annotated[Optional[float], "Correlation of the log-likelihoods."]
    probability_change: Annotated[Optional[Estimate], "Mean change of the probability of the token that follows in the text."]
    kl_by_position: Annotated[Optional[list[float]], "Mean divergence at each counted position of a chunk."]
    kl_by_chunk: Annotated[Optional[list[float]], "Mean divergence in each chunk."]
    tensors: Annotated[Optional[dict[str, "TensorDifference"]], "A :class:`TensorDifference` for each tensor by name."]
    continuations: Annotated[Optional["Continuations"], "Agreement of greedy :class:`Continuations`."]


@_documented
class Continuations(NamedTuple):
    """Agreement of the greedy continuations of a file with those of its base."""

    n_prompts: Annotated[int, "Number of prompts."]
    prompt_tokens: Annotated[int, "Tokens of a prompt (64)."]
    continuation_tokens: Annotated[int, "Tokens of a continuation (32)."]
    same: Annotated[Estimate, "Share of prompts whose continuations are the same."]
    tokens_before_difference: Annotated[
        Estimate, "Mean number of tokens before the first difference; ``continuation_tokens`` for equal continuations."]


@_documented
class TensorDifference(NamedTuple):
    """Difference of a tensor from that of the base."""

    name: Annotated[str, "Name of the tensor."]
    base_type: Annotated[str, "Its type in the base."]
    type: Annotated[str, "Its type in the file."]
    elements: Annotated[int, "Number of elements."]
    rmse: Annotated[float, "Root mean square of the differences."]
    base_rms: Annotated[float, "Root mean square of the base's elements."]
    snr_db: Annotated[Optional[float], "Signal-to-noise ratio in decibels; None if nothing differs."]
    cosine: Annotated[float, "Cosine of the angle between both tensors."]
    max_error: Annotated[float, "Largest difference."]


@_documented
class Imatrix(NamedTuple):
    """An importance matrix that was written."""

    path: Annotated[str, "The file."]
    entries: Annotated[int, "Number of entries, one for each matrix of the model."]
    chunks: Annotated[int, "Number of chunks that were read."]
    context: Annotated[int, "Tokens of a chunk."]
    datasets: Annotated[list[str], "Names of the texts."]
    not_covered: Annotated[dict[str, list[int]],
        "Tensors without data by name, each with its experts without data; an empty list stands for the whole tensor."]


@_documented
class Verdict(NamedTuple):
    """A metric of a file and its baseline."""

    metric: Annotated[Literal["perplexity", "divergence"], '``"perplexity"`` or ``"divergence"`` (KL divergence from the base).']
    value: Annotated[float, "Value of the file."]
    baseline: Annotated[float, "Value in the baseline."]
    difference: Annotated[Optional[Estimate],
        "Mean of the differences from the baseline over chunks, of the KL divergence or of the negative log-likelihood, in nats; "
        "None if the baseline has no values of chunks."]
    highest: Annotated[Optional[float], "The highest value that the margin allows, or None for a metric without a limit."]
    is_worse: Annotated[bool, "True if the value exceeds it."]


@_documented
class Score(NamedTuple):
    """Accuracy of a model on tasks."""

    accuracy: Annotated[float, "Share of correct answers, from 0 to 1."]
    error: Annotated[float, "Its standard error."]
    interval: Annotated[tuple[float, float], "Bounds of the share by Wilson's interval at 95 %."]
    correct: Annotated[int, "Number of correct answers."]
    tasks: Annotated[int, "Number of tasks."]
    chance: Annotated[float, "Expected share of random answers."]


@_documented
class Responsible(NamedTuple):
    """A part of a file that differs from the original."""

    part: Annotated[Literal["tokenizer", "template", "weights", "graph", "weights or graph"],
        "``tokenizer``, ``template``, ``weights``, ``graph`` or ``weights or graph``."]
    evidence: Annotated[list[str], "Findings that point to it."]
    advice: Annotated[list[str], "Steps to take."]


@_documented
class Finding(NamedTuple):
    """A fact that a check found."""

    check: Annotated[str, "Name of the check."]
    severity: Annotated[Literal["note", "warning", "error"], "``note``, ``warning`` or ``error``."]
    code: Annotated[str, "Stable identifier, for example ``prompt``."]
    message: Annotated[str, "A sentence."]


@_documented
class TensorType(NamedTuple):
    """A type of a tensor."""

    name: Annotated[str, "Its name."]
    block_elements: Annotated[int, "Number of elements of a block."]
    block_bytes: Annotated[int, "Number of bytes of a block."]
    encodable: Annotated[bool, "True if tensors can be converted to it."]
    needs_importance: Annotated[bool, "True if that needs an importance matrix."]

    @property
    def bits(self) -> float:
        """Stored bits for each element, scales included."""
        return self.block_bytes * 8 / self.block_elements
