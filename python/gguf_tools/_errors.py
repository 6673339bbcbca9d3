"""Errors and warnings of the native half."""

from __future__ import annotations


class GgufWarning(UserWarning):
    """A problem that does not stop a call, such as a tensor without importance data."""


class GgufError(Exception):
    """A failed call.

    Attributes, each of which may be None:
        file: The file or folder, or the file inside of the folder.
        tensor: Name of the tensor.
        key: Key of a config or of metadata.
        expected: The expected value, as text.
        found: The value that was found, as text.
        hint: Steps to take.
    """

    def __init__(
        self, message: str, *, file: str | None = None, tensor: str | None = None, key: str | None = None,
        expected: str | None = None, found: str | None = None, hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.file, self.tensor, self.key = file, tensor, key
        self.expected, self.found, self.hint = expected, found, hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\nhint: {self.hint}" if self.hint else message


def from_native(message: list, hints: list, facts: dict) -> GgufError:
    """The exception of an error of the toolkit."""
    hint = "; ".join(in_keywords(hint) for hint in hints)
    return GgufError(in_keywords(message), hint=hint or None, **facts)


# Functions for commands.
_FUNCTIONS = {
    "gguf-convert": "convert",
    "gguf-convert adapter": "convert_adapter",
    "gguf-convert mmproj": "convert_projector",
    "gguf-convert vocab": "convert_vocab",
    "gguf-eval embed": "Model.embed",
    "gguf-eval generate": "Model.generate",
    "gguf-eval imatrix": "imatrix",
    "gguf-publish": "publish",
    "gguf-quantize": "quantize",
}
# Keywords for options that are True, and for those whose names differ or that have one value.
_TRUE = ("allow-nonfinite", "allow-requantize", "drop-dominated", "lora-tokenizer", "repack", "replace-types", "resume", "tensors")
_KEYWORDS = {
    **{option: f"{option.replace('-', '_')}=True" for option in _TRUE},
    "force": "overwrite=True",
    "image": "images",
    "mtp": 'mtp="only"',
    "no-mtp": 'mtp="without"',
    "o": "output",
    "override-kv": "metadata",
    "tensor-type": "tensor_types",
    "type": "file_type",
    "with": "also",
    "with-mmproj": "mmproj=True",
}


def in_keywords(parts: list) -> str:
    """A message of texts, options (tuples of name and value) and commands (lists), with functions and keywords for these."""
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            code = _keyword(*part) if isinstance(part, tuple) else _call(part)
            text += code if text.endswith("`") else f"`{code}`"
    return text


def _keyword(option: str, value: str | None) -> str:
    keyword = _KEYWORDS.get(option, option.replace("-", "_"))
    return keyword if "=" in keyword else f"{keyword}={_literal(value) if value else ''}"


def _literal(value: str) -> str:
    """A value as in Python; names in capitals stand for a value of the user."""
    is_literal = value.isupper() or value.isdigit() or value[:1] in "'\""
    return value if is_literal else f'"{value}"'


def _call(words: list) -> str:
    for n_words in (2, 1):
        name, rest = words[:n_words], words[n_words:]
        if all(isinstance(word, str) for word in name) and " ".join(name) in _FUNCTIONS:
            arguments = (_literal(word) if isinstance(word, str) else _keyword(*word) for word in rest)
            return f"{_FUNCTIONS[' '.join(name)]}({', '.join(arguments)})"
    return " ".join(word if isinstance(word, str) else " ".join(filter(None, (f"--{word[0]}", word[1]))) for word in words)
