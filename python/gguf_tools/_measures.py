"""How well files predict a text."""

from __future__ import annotations

import os
from collections import namedtuple

from . import _native

Perplexity = namedtuple("Perplexity", "value error mean_loss chunks tokens")
Perplexity.__doc__ = "A perplexity with its standard error (None where too few tokens were counted), and what it was measured on."
Estimate = namedtuple("Estimate", "value error")
Estimate.__doc__ = "A mean and its standard error."
Comparison = namedtuple(
    "Comparison",
    "tokens base_perplexity perplexity perplexity_ratio kl kl_quantiles same_top same_top_k correlation probability_change",
)
Comparison.__doc__ = """How far a file's predictions are from a base's.

``kl``: mean Kullback-Leibler divergence in nats, ``kl_quantiles`` how it is spread. ``same_top``: share of tokens whose most
likely token is the same; ``same_top_k``: share of the base's 10 most likely that are among the other's.
``probability_change``: mean change of the probability of the token that came.
"""


def _how(text, context, chunks, threads, activations):
    # A path is a file; a str is the text itself.
    if isinstance(text, os.PathLike):
        with open(text, "rb") as file:
            text = file.read()
    elif isinstance(text, str):
        text = text.encode()
    return (bytes(text), context, chunks, threads, activations)


def perplexity(
    file, text, *, context=512, chunks=None, threads=None, activations="f32", progress=None
) -> Perplexity:
    """Perplexity of a GGUF file on a text, as defined by llama.cpp.

    ``text`` is the text itself, or the path of a file (:class:`os.PathLike`). The text is cut into
    chunks of ``context`` tokens, of which at most ``chunks`` are measured. ``progress`` is called with the number of finished
    chunks and of all chunks.
    """
    how = _how(text, context, chunks, threads, activations)
    return Perplexity(*_native.perplexity(os.fspath(file), how, progress))


def compare(
    base, other, text, *, context=512, chunks=None, threads=None, activations="f32", progress=None
) -> Comparison:
    """Compares what two GGUF files predict of a text; arguments as in :func:`perplexity`."""
    import json

    how = _how(text, context, chunks, threads, activations)
    found = json.loads(_native.compare(os.fspath(base), os.fspath(other), how, progress))

    def estimate(key):
        return Estimate(found[key]["value"], found[key]["error"])

    return Comparison(
        tokens=found["n_positions"],
        base_perplexity=estimate("base_perplexity"),
        perplexity=estimate("perplexity"),
        perplexity_ratio=estimate("perplexity_ratio"),
        kl=estimate("kl"),
        kl_quantiles=found["kl_quantiles"],
        same_top=estimate("same_top"),
        same_top_k=estimate("same_top_k"),
        correlation=found["correlation"],
        probability_change=estimate("p_diff"),
    )
