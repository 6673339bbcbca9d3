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
        self,
        message: str,
        *,
        file: str | None = None,
        tensor: str | None = None,
        key: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.tensor = tensor
        self.key = key
        self.expected = expected
        self.found = found
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\nhint: {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple:
        # Includes the fields, so that they reach other processes.
        return (_restored, (self.args, self.__dict__.copy()))


def _restored(args: tuple, fields: dict) -> GgufError:
    error = GgufError(*args)
    error.__dict__.update(fields)
    return error


def from_native(message: str, hints: list, fields: dict) -> GgufError:
    """The exception of an error of the toolkit, which names options as on the command line."""
    hint = "; ".join(in_keywords(hint) for hint in hints)
    return GgufError(in_keywords(message), hint=hint or None, **fields)


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
# Keywords for options whose names differ, or that are True or have one value.
_KEYWORDS = {
    "allow-nonfinite": "allow_nonfinite=True",
    "allow-requantize": "allow_requantize=True",
    "drop-dominated": "drop_dominated=True",
    "force": "overwrite=True",
    "image": "images",
    "lora-tokenizer": "lora_tokenizer=True",
    "mtp": 'mtp="only"',
    "no-mtp": 'mtp="without"',
    "o": "output",
    "override-kv": "metadata",
    "repack": "repack=True",
    "replace-types": "replace_types=True",
    "resume": "resume=True",
    "tensor-type": "tensor_types",
    "tensors": "tensors=True",
    "type": "file_type",
    "with": "also",
    "with-mmproj": "mmproj=True",
}
_COMMAND = r"`(gguf-[a-z]+)( [^`]*)?`|\b(gguf-[a-z]+)(?= --)"
# Other words in backticks are kept.
_OPTION = r"`[^`-][^`]*`|`--([a-z][a-z0-9-]*)(?:[ =]([^`]+))?`|(?<![\w/`'\"-])--([a-z][a-z0-9-]*)(?: ([A-Z]+)\b)?"


def in_keywords(text: str) -> str:
    """A message of the toolkit with functions and keywords instead of commands and options."""
    if "--" not in text and "`gguf-" not in text:
        return text
    # Imported here, because it is slow and few messages name an option.
    import re

    return re.sub(_OPTION, _option, re.sub(_COMMAND, _command, text))


def _option(match) -> str:
    quoted, value, bare, placeholder = match.groups()
    if quoted is None and bare is None:
        return match.group()
    return f"`{_keyword(quoted or bare, value or placeholder)}`"


def _keyword(option: str, value) -> str:
    keyword = _KEYWORDS.get(option, option.replace("-", "_"))
    if "=" in keyword:
        return keyword
    return f"{keyword}={_literal(value) if value else ''}"


def _literal(value: str) -> str:
    """A value as in Python; names in capitals stand for a value of the user."""
    is_literal = value.isupper() or value.isdigit() or value[:1] in "'\""
    return value if is_literal else f'"{value}"'


def _command(match) -> str:
    program, rest, bare = match.groups()
    if bare is not None:
        return f"`{_FUNCTIONS[bare]}()` with" if bare in _FUNCTIONS else bare
    import re

    # Values may be quoted and hold spaces; other words do not.
    words = re.findall(r"'[^']*'|\S+", rest or "")
    if words and f"{program} {words[0]}" in _FUNCTIONS:
        program = f"{program} {words.pop(0)}"
    if program not in _FUNCTIONS:
        return match.group()
    arguments, index = [], 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("-"):
            arguments.append(_literal(word))
            continue
        option = word.lstrip("-")
        takes_value = "=" not in _KEYWORDS.get(option, "") and index < len(words)
        arguments.append(_keyword(option, words[index] if takes_value else None))
        index += takes_value
    return f"`{_FUNCTIONS[program]}({', '.join(arguments)})`"
