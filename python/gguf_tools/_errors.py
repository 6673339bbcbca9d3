"""The exception of everything that goes wrong in the native half."""

from __future__ import annotations


class GgufError(Exception):
    """Failure of a call. A field that does not apply is ``None``.

    Attributes:
        file: The file or folder, or a file in the folder.
        tensor: Name of the tensor.
        key: Key of a config or of metadata.
        expected: The expected value as a text.
        found: The value that was found, as a text.
        hint: Advice.
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
        # With its fields, so that it crosses processes.
        return (_restored, (self.args, self.__dict__.copy()))


def _restored(args: tuple, fields: dict) -> GgufError:
    error = GgufError(*args)
    error.__dict__.update(fields)
    return error
