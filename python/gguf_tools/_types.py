"""Supported types, and encoding and decoding of arrays. Functions import NumPy themselves, because it is slow to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native
from ._results import TensorType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def types() -> list[str]:
    """Returns the names of the file types that conversions write, for example ``q4_k_m``.

    Example:
        >>> "q4_k_m" in gt.types()
        True
    """
    return _native.types()


def tensor_types() -> dict[str, TensorType]:
    """Returns the types of tensors by name.

    Example:
        >>> gt.tensor_types()["q4_k"].bits
        4.5
    """
    return {row[0]: TensorType(*row) for row in _native.tensor_types()}


def architectures() -> dict[str, list[str]]:
    """Returns the architectures that are converted, with the class names of their configs.

    Example:
        >>> gt.architectures()["llama"]
    """
    return dict(_native.architectures())


def encode(array: npt.ArrayLike, type: str, *, importance: npt.ArrayLike | None = None) -> npt.NDArray[np.uint8]:
    """Encodes rows of numbers. The bytes are those of a file of this type.

    Args:
        array: Numbers of shape (..., n); n is a multiple of the type's block.
        type: Name of a tensor type, for example ``"q4_k"``.
        importance: A weight for each column, of shape (n,).

    Returns:
        A uint8 array of shape (..., bytes of a row).

    Raises:
        GgufError: The type is unknown or needs ``importance``, or the length of a row is not a multiple of the block.
        ValueError: The array has no rows.

    Example:
        >>> gt.encode(weights, "q8_0").shape
    """
    import numpy as np

    array = np.asarray(array, dtype=np.float32)
    if array.ndim == 0:
        raise ValueError("a single number has no rows")
    rows = array.reshape(-1, array.shape[-1]) if array.size else array.reshape(0, array.shape[-1])
    if importance is not None:
        importance = np.ascontiguousarray(importance, dtype=np.float32)
    blocks = _native.encode(rows, type, importance)
    return blocks.reshape(*array.shape[:-1], blocks.shape[-1])


def decode(blocks: npt.NDArray[np.uint8], type: str) -> npt.NDArray[np.float32]:
    """Decodes rows of blocks.

    Args:
        blocks: A uint8 array of shape (..., bytes of a row).
        type: Name of a tensor type, for example ``"q4_k"``.

    Returns:
        A float32 array of shape (..., n).

    Raises:
        GgufError: The type is unknown, or the length of a row is not a multiple of the block.
        ValueError: The array is not uint8.

    Example:
        >>> gt.decode(file["output.weight"].raw, file["output.weight"].type)
    """
    import numpy as np

    blocks = np.asarray(blocks)
    if blocks.dtype != np.uint8 or blocks.ndim == 0:
        raise ValueError(f"blocks are an array of uint8, not of {blocks.dtype}")
    rows = blocks.reshape(-1, blocks.shape[-1]) if blocks.size else blocks.reshape(0, blocks.shape[-1])
    values = _native.decode(rows, type)
    return values.reshape(*blocks.shape[:-1], values.shape[-1])
