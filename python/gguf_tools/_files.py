"""Reading a GGUF: metadata key by key, tensors as arrays over the mapped file."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING
from collections.abc import Mapping

from . import _native

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    from ._annotations import Value
    from ._options import StrPath

# NumPy types of tensor types. bf16 is missing, because NumPy has no such type without ml_dtypes.
_PLAIN = {"f32": "f4", "f16": "f2", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}


class Metadata(Mapping):
    """The metadata of a file: a mapping from keys to values in the order of the file.

    Values are numbers, bools, strings (bytes if they are not UTF-8) or lists. They are read on access, because lists of tokens are
    long.
    """

    def __init__(self, file: _native.File) -> None:
        self._file = file
        self._keys = dict.fromkeys(file.keys())

    def __getitem__(self, key: str) -> Value:
        if key not in self._keys:
            raise KeyError(key)
        return self._file.value(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __repr__(self) -> str:
        return f"<Metadata of {len(self)} keys>"


class Tensor:
    """A tensor of a file. Its data is read on access."""

    __slots__ = ("_file", "name", "nbytes", "offset", "path", "shape", "type")

    def __init__(
        self, file: File, name: str, type: str, shape: Sequence[int], path: StrPath, offset: int, nbytes: int
    ) -> None:
        self._file = file
        #: Name.
        self.name = name
        #: Type in lower case, for example ``q4_k``.
        self.type = type
        #: Dimensions in the order of torch, the length of a row last.
        self.shape = tuple(shape)
        #: The file that contains it.
        self.path = path
        #: Offset of the data in this file, in bytes.
        self.offset = offset
        #: Size of the data in bytes.
        self.nbytes = nbytes

    @property
    def raw(self) -> npt.NDArray[np.uint8]:
        """Stored bytes: a read-only view of the file, uint8 of shape (..., bytes of a row)."""
        import numpy as np

        if not self.nbytes:
            return np.zeros((*self.shape[:-1], 0), dtype=np.uint8)
        flat = np.frombuffer(self._file._mapped(self.path), np.uint8, self.nbytes, self.offset)
        return flat.reshape(*self.shape[:-1], -1)

    def numpy(self) -> npt.NDArray[Any]:
        """Returns the values if NumPy has their type (f32, f16, f64, integers), otherwise the bytes as :attr:`raw`. The array is a
        read-only view of the file.
        """
        import numpy as np

        plain = _PLAIN.get(self.type)
        if plain is None or not self.nbytes:
            return self.raw
        order = ">" if self._file._big_endian else "<"
        count = self.nbytes // int(plain[1])
        buffer = self._file._mapped(self.path)
        return np.frombuffer(buffer, np.dtype(order + plain), count, self.offset).reshape(self.shape)

    def decode(self) -> npt.NDArray[np.float32]:
        """Returns the values as float32, whatever the type."""
        import numpy as np

        if self.type in _PLAIN:
            return self.numpy().astype(np.float32)
        return self._file._native.decode(self.name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        values = self.decode()
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        return f"<Tensor {self.name} {self.type} {list(self.shape)}>"


class File(Mapping):
    """A GGUF model in one file or several: a mapping from names to :class:`Tensor` in the order of the file."""

    def __init__(self, path: str | os.PathLike) -> None:
        self._native = _native.File(os.fspath(path))
        self._big_endian = self._native.is_big_endian()
        self._maps: dict = {}
        rows = self._native.tensors()
        self._tensors = {row[0]: Tensor(self, *row) for row in rows}
        #: The path as it was given.
        self.path = path
        #: The metadata; for a split model that of the first file.
        self.metadata = Metadata(self._native)

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors in order."""
        return list(self._tensors.values())

    def _mapped(self, path):
        """The mapped file; arrays over it keep it open."""
        if path not in self._maps:
            import mmap

            with io.open(path, "rb") as file:
                self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._maps[path]

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        architecture = self.metadata.get("general.architecture")
        return f"<File {os.fspath(self.path)}: {architecture}, {len(self)} tensors>"


def open(path: StrPath) -> File:
    """Opens a GGUF file, or the split model that it belongs to. Only headers are read.

    Args:
        path: The file.

    Returns:
        The file, a mapping from names to tensors.

    Raises:
        GgufError: The file cannot be read or is invalid.

    Example:
        >>> file = gt.open("model.gguf")
        >>> file.metadata["general.architecture"], file["blk.0.attn_q.weight"].decode().shape
    """
    return File(path)
