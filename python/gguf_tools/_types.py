"""The types that there are, and arrays in them. NumPy is imported where it is first needed: it takes longer than all the rest."""

from __future__ import annotations

from collections import namedtuple

from . import _native

TensorType = namedtuple("TensorType", "name block_elements block_bytes encodable needs_importance")
TensorType.__doc__ = "A type that a tensor of a file can have; `bits` are those stored for each weight, scales included."
TensorType.bits = property(lambda self: self.block_bytes * 8 / self.block_elements)


def types() -> list[str]:
    """The file types that conversions make, such as ``q4_k_m``."""
    return [name for name, _, _ in _native.types()]


def tensor_types() -> dict[str, TensorType]:
    """The types of tensors, by name."""
    return {row[0]: TensorType(*row) for row in _native.tensor_types()}


def architectures() -> dict[str, list[str]]:
    """The architectures that are converted, with the class names of their configs."""
    return dict(_native.architectures())


def encode(array, type: str, *, importance=None):
    """Encodes rows of numbers: (..., n) to uint8 (..., bytes of a row). n is a multiple of the type's block.

    ``importance`` is a weight for each column, (n,). The bytes are those that a file of this type has of these rows.
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


def decode(blocks, type: str):
    """Decodes blocks: uint8 (..., bytes of a row) to float32 (..., n)."""
    import numpy as np

    blocks = np.asarray(blocks)
    if blocks.dtype != np.uint8 or blocks.ndim == 0:
        raise ValueError(f"blocks are an array of uint8, not of {blocks.dtype}")
    rows = blocks.reshape(-1, blocks.shape[-1]) if blocks.size else blocks.reshape(0, blocks.shape[-1])
    values = _native.decode(rows, type)
    return values.reshape(*blocks.shape[:-1], values.shape[-1])
