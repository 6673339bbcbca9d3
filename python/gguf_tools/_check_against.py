"""Comparison of a GGUF file with the model that it was made from."""

from __future__ import annotations

import json
import os
import tempfile
from collections import namedtuple
from pathlib import Path

from . import _native

Responsible = namedtuple("Responsible", "part evidence advice")
Responsible.__doc__ = """A part of a file that differs from the original: ``tokenizer``, ``template``, ``weights``, ``graph`` or
``weights or graph``; the findings that point to it, and steps to take."""
Finding = namedtuple("Finding", "check severity code message")
Finding.__doc__ = "A fact that a check found. The severity is ``note``, ``warning`` or ``error``."


class CheckReport:
    """Result of :func:`check_against`. Its text is the report of ``gguf-eval check-against``."""

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


def record(model, tokenizer, path, *, texts=None, conversations=None, sequences=None, positions=16, weights=True) -> Path:
    """Writes how a model of transformers tokenizes, renders prompts and predicts, for ``gguf-eval check-against`` and
    :func:`check_against`. Returns ``path``; arrays are written next to it, with the ending ``.f32``.

    ``texts`` are the strings whose token ids are recorded. ``conversations`` are lists of messages, or dicts with ``name``,
    ``messages``, ``tools`` and ``variables`` of the template. ``sequences`` are lists of token ids that the model predicts, at
    up to ``positions`` positions each. ``weights`` also records a sum for each row of each tensor. ``model`` or ``tokenizer``
    may be None. The model runs as it is: in its type, on its device.
    """
    from . import _record

    options = dict(texts=texts, conversations=conversations, sequences=sequences, positions=positions, weights=weights)
    return Path(_record.write(model, tokenizer, path, **options))


def check_against(
    model,
    file,
    tokenizer=None,
    *,
    texts=None,
    conversations=None,
    sequences=None,
    positions=16,
    checkpoint=None,
    threads=None,
    progress=None,
) -> CheckReport:
    """Compares a GGUF file with the model of transformers that it was made from, and reports which part is responsible for a
    difference: tokenizer, template, weights or graph.

    ``model`` may also be the path of a :func:`record`. ``checkpoint`` is a folder whose tensors are compared instead of the sums
    in the record. The other arguments are those of :func:`record`. ``progress`` is called with the bytes of weights that are
    done and the total.

        report = gt.check_against(model, "tuned-q4_k_m.gguf", tokenizer)
        print(report)
        assert report.is_same
    """
    if isinstance(model, (str, os.PathLike)):
        return _checked(model, file, checkpoint, threads, progress)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "record.json")
        record(model, tokenizer, path, texts=texts, conversations=conversations, sequences=sequences, positions=positions)
        return _checked(path, file, checkpoint, threads, progress)


def _checked(record_path, file, checkpoint, threads, progress) -> CheckReport:
    checkpoint = None if checkpoint is None else os.fspath(checkpoint)
    text, facts = _native.check_against(os.fspath(file), os.fspath(record_path), checkpoint, threads, progress)
    return CheckReport(text, json.loads(facts))
