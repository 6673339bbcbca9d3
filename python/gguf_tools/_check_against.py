"""Comparison of a GGUF file with the model that it was made from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ._calls import as_path, call, text_path
from ._results import Finding, Responsible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from ._options import Progress, StrPath


class CheckReport:
    """Result of :func:`check_against`. As a text (``str``), it is the report of ``gguf-eval check-against``."""

    def __init__(self, text: str, facts: dict) -> None:
        self._text = text
        #: All facts, as ``gguf-eval check-against --json`` prints them.
        self.facts = facts
        #: The parts that differ, in the order in which text passes through a model; empty if nothing differs.
        self.responsible = [Responsible(**entry) for entry in facts["responsible"]]
        #: The findings of all checks.
        self.findings = [
            Finding(check["name"], **finding) for check in facts["checks"] for finding in check["findings"]
        ]
        #: Differences of predictions: ``kl``, ``same_top``, ``error``, ...; None if none were compared.
        self.predictions = facts["predictions"]

    @property
    def is_same(self) -> bool:
        """True if no difference was found."""
        return self.facts["same"]

    @property
    def parts(self) -> list[str]:
        """Names of the parts that differ."""
        return [responsible.part for responsible in self.responsible]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<CheckReport: {', '.join(self.parts) or 'same'}>"


def record(
    model: Any,
    tokenizer: Any,
    path: StrPath,
    *,
    texts: Sequence[str] | None = None,
    conversations: Sequence[Any] | None = None,
    sequences: Sequence[Sequence[int]] | None = None,
    positions: int = 16,
    weights: bool = True,
) -> Path:
    """Writes a record of a model of transformers: its token ids, prompts and predictions, for ``gguf-eval check-against`` and
    :func:`check_against`. Arrays are written to a second file, with the ending ``.f32``.

    The model runs unchanged, in its type and on its device.

    Args:
        model: A model of transformers, or None.
        tokenizer: Its tokenizer, or None.
        path: File to write.
        texts: Texts whose token ids are recorded. Default: a corpus of scripts, code and whitespace.
        conversations: Lists of messages, or dicts with ``name``, ``messages``, ``tools`` and ``variables`` of the template.
        sequences: Lists of token ids that the model predicts.
        positions: Maximum number of predictions of each sequence.
        weights: Record a sum for each row of each tensor too.

    Returns:
        The path.

    Example:
        >>> gt.record(model, tokenizer, "record.json")
    """
    from . import _record

    options = dict(texts=texts, conversations=conversations, sequences=sequences, positions=positions, weights=weights)
    return as_path(_record.write(model, tokenizer, path, **options))


def check_against(
    model: Any,
    file: StrPath,
    tokenizer: Any = None,
    *,
    texts: Sequence[str] | None = None,
    conversations: Sequence[Any] | None = None,
    sequences: Sequence[Sequence[int]] | None = None,
    positions: int = 16,
    checkpoint: StrPath | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> CheckReport:
    """Compares a GGUF file with the model of transformers from which it was made, and reports the part that is responsible for a
    difference: tokenizer, template, weights or graph.

    Args:
        model: The model, or the path of a :func:`record`.
        file: The GGUF file.
        tokenizer: The tokenizer of the model.
        texts: As for :func:`record`.
        conversations: As for :func:`record`.
        sequences: As for :func:`record`.
        positions: As for :func:`record`.
        checkpoint: A folder whose tensors are compared, instead of the sums in the record.
        threads: Number of threads. Default: one per core.
        progress: Called with the bytes of weights that are done and the total.

    Returns:
        The report.

    Raises:
        GgufError: The file or the record cannot be read.

    Example:
        >>> report = gt.check_against(model, "tuned-q4_k_m.gguf", tokenizer)
        >>> print(report)
        >>> assert report.is_same
    """
    if isinstance(model, (str, os.PathLike)):
        options = {"file": os.fsdecode(file), "record": os.fsdecode(model), "weights": text_path(checkpoint), "threads": threads}
        return CheckReport(*call("check_against", options, progress))
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "record.json")
        record(model, tokenizer, path, texts=texts, conversations=conversations, sequences=sequences, positions=positions)
        return check_against(path, file, checkpoint=checkpoint, threads=threads, progress=progress)
