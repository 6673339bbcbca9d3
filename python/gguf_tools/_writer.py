"""Writer of tensors and metadata, with the calls of gguf-py's ``GGUFWriter``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    import numpy.typing as npt

    from ._options import StrPath

    _T = TypeVar("_T", int, float)

# In the order of the ids in gguf-py's GGUFValueType.
_VALUE_TYPES = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "array", "u64", "i64", "f64")
# Types by their names in NumPy.
_DTYPES = {
    **{f"float{bits}": f"f{bits}" for bits in (32, 16, 64)}, **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}, "bfloat16": "bf16"
}
# Bytes of a tensor that are passed on at a time.
_PIECE = 1 << 24


def _value_type(vtype) -> str:
    """The name of a type from its name, its id or a member of gguf-py's GGUFValueType."""
    if isinstance(vtype, str):
        return vtype
    if 0 <= int(vtype) < len(_VALUE_TYPES):
        return _VALUE_TYPES[int(vtype)]
    raise ValueError(f"unknown value type {vtype!r}")


def _type_of(value) -> str:
    for kinds, name in (((str, bytes, bytearray), "str"), (list, "array"), (float, "f32"), (bool, "bool"), (int, "i32")):
        if isinstance(value, kinds):
            return name
    raise ValueError(f"unknown value type: {type(value).__name__}")


def _array(values, item=None):
    """The type and the items of an array; the first item decides the type."""
    if len(values) == 0:
        raise ValueError("empty array")
    if item is None:
        item = "u8" if isinstance(values, bytes) else _type_of(values[0])
        if not isinstance(values, bytes) and any(_type_of(value) != item for value in values):
            raise ValueError("all items of an array need the same type")
    if item == "array":
        return "arr[arr]", [_array(value) for value in values]
    return f"arr[{item}]", list(values)


def _is_big(order) -> bool:
    """True for ``"big"`` and for gguf-py's GGUFEndian.BIG."""
    name = str(getattr(order, "name", order)).lower()
    if name not in ("big", "little"):
        raise ValueError(f"byte order: expected big or little, found {order!r}")
    return name == "big"


def _number(kind: str, _type: type[_T]) -> Callable[[GGUFWriter, str, _T], None]:
    def add(self: GGUFWriter, key: str, val: _T) -> None:
        """Sets a key to a number of this type."""
        self.add_key_value(key, val, kind)

    return add


class GGUFWriter:
    """Writes a GGUF file with given tensors and metadata.

    The calls are those of gguf-py's ``GGUFWriter``, and the same calls write the same bytes. Every ``add_NAME`` of gguf-py exists.
    Data types, value types and byte orders are members of gguf-py's enumerations or names (``"q8_0"``, ``"u32"``, ``"big"``).

    Files get their names when they are complete, so an error leaves nothing. Arrays are held until they are written.

    Args:
        path: The file, or None to set it with :meth:`open_output_file`.
        arch: Value of ``general.architecture``.
        use_temp_file: Without effect; for code that was written for gguf-py.
        endianess: Byte order.
        split_max_tensors: Maximum number of tensors of a shard; 0 writes one file.
        split_max_size: Maximum size of the tensors of a shard in bytes; 0 writes one file.
        dry_run: Write nothing; :meth:`plan` returns the files.
        small_first_shard: Write a first shard without tensors.

    Raises:
        GgufError: A key or tensor is a duplicate, data does not match its shape, or a file cannot be written.
        ValueError: A value has no type of GGUF, or calls are in the wrong order.

    Example:
        >>> with gt.GGUFWriter("own.gguf", "llama") as writer:
        ...     writer.add_block_count(2)
        ...     writer.add_tensor("output_norm.weight", norm)
        ...     writer.add_tensor_as("output.weight", output, "q8_0")
        ...     writer.write_header_to_file()
        ...     writer.write_kv_data_to_file()
        ...     writer.write_tensors_to_file()
    """

    def __init__(
        self, path: StrPath | None, arch: str, use_temp_file: bool = False, endianess: Any = "little",
        split_max_tensors: int = 0, split_max_size: int = 0, dry_run: bool = False, small_first_shard: bool = False,
    ) -> None:
        self.path = None if path is None else os.fspath(path)
        self.arch = arch
        self.dry_run = dry_run
        self._native = _native.FileWriter(_is_big(endianess), split_max_tensors, split_max_size, small_first_shard)
        self._data: list = []
        # The calls that were made: header, keys, tensor infos.
        self._stage = 0
        self.add_architecture()

    # Metadata

    def add_key_value(self, key: str, val: Any, vtype: Any, sub_type: Any = None) -> None:
        """Sets a key to a value of this type; ``sub_type`` is the type of the items of an array."""
        kind = _value_type(vtype)
        if kind == "array":
            kind, val = _array(val, None if sub_type is None else _value_type(sub_type))
        if self._native.has_key(key):
            from warnings import warn

            warn(f"duplicate metadata key `{key}` is overwritten", stacklevel=3)
        self._native.set(key, kind, val)

    def remove_key(self, key: str) -> None:
        """Removes a key, if it exists."""
        self._native.remove(key)

    add_uint8 = _number("u8", int)
    add_int8 = _number("i8", int)
    add_uint16 = _number("u16", int)
    add_int16 = _number("i16", int)
    add_uint32 = _number("u32", int)
    add_int32 = _number("i32", int)
    add_float32 = _number("f32", float)
    add_uint64 = _number("u64", int)
    add_int64 = _number("i64", int)
    add_float64 = _number("f64", float)

    def add_bool(self, key: str, val: bool) -> None:
        """Sets a key to a truth value."""
        self.add_key_value(key, val, "bool")

    def add_string(self, key: str, val: str) -> None:
        """Sets a key to a text; an empty text adds nothing."""
        if val:
            self.add_key_value(key, val, "str")

    def add_array(self, key: str, val: Sequence[Any]) -> None:
        """Sets a key to a list, whose first item decides the type: ``i32``, ``f32``, ``bool``, ``str`` or an array. An empty
        list adds nothing."""
        if len(val):
            self.add_key_value(key, val, "array")

    def add_architecture(self) -> None:
        """Sets ``general.architecture``."""
        self.add_string("general.architecture", self.arch)

    def add_custom_alignment(self, alignment: int) -> None:
        """Sets the alignment of tensors in bytes, a power of two."""
        if alignment <= 0 or alignment & (alignment - 1):
            raise ValueError(f"alignment: expected a power of two, found {alignment}")
        self.add_uint32("general.alignment", alignment)

    def add_tensor_extra_prec_a4(self, tensor_names: Sequence[str], values: Sequence[bool]) -> None:
        """Sets the two lists of tensors with extra precision."""
        if len(tensor_names) != len(values):
            raise ValueError(f"expected {len(tensor_names)} values, one for each tensor, found {len(values)}")
        self.add_array("general.tensor_extra.name", list(tensor_names))
        self.add_array("general.tensor_extra.prec_a4", list(values))

    def add_dense_features_dims(self, dense: str, in_f: int, out_f: int) -> None:
        """Sets the input and output length of a matrix after the pooling."""
        self.add_uint32(f"{self.arch}.{dense}_feat_in", in_f)
        self.add_uint32(f"{self.arch}.{dense}_feat_out", out_f)

    def add_chat_template(self, value: str | Sequence[Mapping[str, str]] | None) -> None:
        """Sets the chat template: a text, a list of ``{"name": ..., "template": ...}``, or None to remove it."""
        key = "tokenizer.chat_template"
        if value is None:
            self.remove_key(key)
            return
        if not isinstance(value, str):
            templates = {}
            for choice in value:
                name = "".join(c if c.isascii() and c.isalnum() else "_" for c in choice.get("name", ""))
                if name and choice.get("template") is not None:
                    templates[name] = choice["template"]
            value = templates.pop("default", None)
            for name, template in templates.items():
                self.add_string(f"{key}.{name}", template)
            self.add_array(f"{key}s", list(templates))
        self.add_string(key, value)

    def __getattr__(self, name: str) -> Callable[..., None]:
        from ._writer_keys import METHODS

        kind, template = METHODS.get(name[4:] if name.startswith("add_") else "", (None, None))
        if kind is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def add(*args, **kwargs) -> None:
            *ids, value = (*args, *kwargs.values())
            if "{id}" in template and len(ids) != 1 or "{id}" not in template and ids:
                raise TypeError(f"{name}: expected {1 + ('{id}' in template)} arguments, found {len(ids) + 1}")
            key = template.format(arch=self.arch, id=ids[0] if ids else None)
            is_number = kind == "u32 or array" and isinstance(value, int)
            if kind == "arr[u64]":
                self.add_key_value(key, list(value), "array", "u64")
            elif kind.endswith("array") and not is_number:
                self.add_array(key, value)
            elif kind == "str":
                self.add_string(key, getattr(value, "value", value))
            else:
                self.add_key_value(key, getattr(value, "value", value), "u32" if is_number else kind)

        add.__name__ = name
        add.__doc__ = f"Sets ``{template}`` ({kind})."
        return add

    def __dir__(self) -> list[str]:
        from ._writer_keys import METHODS

        return [*super().__dir__(), *(f"add_{name}" for name in METHODS)]

    # Tensors

    def add_tensor_info(
        self, name: str, tensor_shape: Sequence[int], tensor_dtype: npt.DTypeLike, tensor_nbytes: int, raw_dtype: Any = None,
    ) -> None:
        """Adds a tensor whose data :meth:`write_tensor_data` passes later.

        ``tensor_shape`` has the row length last: in elements, or in bytes if ``tensor_dtype`` is uint8 and ``raw_dtype`` names
        the type of the blocks.
        """
        import numpy as np

        if self._stage:
            raise ValueError("a tensor cannot be added after the header was written")
        numbers = np.dtype(tensor_dtype).name
        shape = [int(dim) for dim in tensor_shape]
        if raw_dtype is None:
            kind = _DTYPES.get(numbers)
            if kind is None:
                raise ValueError(f"tensor `{name}`: expected one of {', '.join(_DTYPES)}, found {numbers}")
        else:
            kind = str(getattr(raw_dtype, "name", raw_dtype)).lower()
            if numbers == "uint8":
                shape = self._elements(name, shape, kind)
        self._native.add_tensor(name, shape, kind, int(tensor_nbytes))
        self._data.append(None)

    @staticmethod
    def _elements(name, shape, kind):
        """A shape in elements from one whose rows are counted in bytes."""
        from ._types import tensor_types

        block = tensor_types().get(kind)
        if block is None:
            raise ValueError(f"tensor `{name}`: unknown type {kind}")
        if not shape or shape[-1] % block.block_bytes:
            raise ValueError(
                f"tensor `{name}`: expected rows of a multiple of {block.block_bytes} bytes ({kind}), found {shape[-1:]}"
            )
        return [*shape[:-1], shape[-1] // block.block_bytes * block.block_elements]

    def add_tensor(
        self, name: str, tensor: npt.NDArray[Any], raw_shape: Sequence[int] | None = None, raw_dtype: Any = None,
        tensor_endianess: Any = None,
    ) -> None:
        """Adds an array of numbers or, with ``raw_dtype``, of encoded blocks (uint8, or numbers of the same bytes).

        ``tensor_endianess`` is the byte order of the array's memory, if that differs from its dtype.
        """
        shape = tensor.shape if raw_shape is None else raw_shape
        self.add_tensor_info(name, shape, tensor.dtype, tensor.nbytes, raw_dtype)
        if tensor_endianess is not None:
            tensor = tensor.view(tensor.dtype.newbyteorder(">" if _is_big(tensor_endianess) else "<"))
        self._data[-1] = (tensor, None)

    def add_tensor_as(self, name: str, array: npt.ArrayLike, dtype: Any) -> None:
        """Adds an array of numbers that is encoded to this type, such as ``"q8_0"``, while the file is written."""
        import numpy as np

        if self._stage:
            raise ValueError("a tensor cannot be added after the header was written")
        array = np.asarray(array)
        kind = str(getattr(dtype, "name", dtype)).lower()
        self._native.add_tensor(name, list(array.shape), kind, None)
        self._data.append((array, kind))

    def plan(self) -> list[dict[str, Any]]:
        """Returns the files that would be written: ``nbytes``, and ``tensors`` with the offset and bytes of each by name."""
        return [
            {"nbytes": nbytes, "tensors": {name: {"offset": at, "nbytes": n} for name, at, n in tensors}}
            for nbytes, tensors in self._native.plan()
        ]

    # Writing

    def open_output_file(self, path: StrPath | None = None) -> None:
        """Sets the path of the file."""
        if path is not None:
            self.path = os.fspath(path)

    def write_header_to_file(self, path: StrPath | None = None) -> None:
        """Begins to write. No tensor can be added afterwards. An existing file is replaced when the new one is complete."""
        self.open_output_file(path)
        self._step(0, "the header")

    def write_kv_data_to_file(self) -> None:
        """Follows :meth:`write_header_to_file`."""
        self._step(1, "the metadata")

    def write_ti_data_to_file(self) -> None:
        """Creates the file with its header, to which :meth:`write_tensor_data` adds one tensor after another."""
        self._step(2, "the tensor infos")
        if not self.dry_run:
            if self.path is None:
                raise ValueError("missing path of the output")
            self._native.open(self.path, True)

    def write_tensor_data(self, tensor: npt.NDArray[Any], tensor_endianess: Any = None) -> None:
        """Writes the data of the next tensor of :meth:`add_tensor_info`."""
        if self._stage != 3:
            raise ValueError("write_ti_data_to_file comes before the data of tensors")
        if tensor_endianess is not None:
            tensor = tensor.view(tensor.dtype.newbyteorder(">" if _is_big(tensor_endianess) else "<"))
        if not self.dry_run:
            expected = self._native.next_tensor()
            if expected is None or expected[1] != tensor.nbytes:
                name, nbytes = expected or ("", 0)
                raise ValueError(f"tensor `{name}`: expected {nbytes} bytes of data, found {tensor.nbytes}")
            self._write(tensor, None)

    def write_tensors_to_file(self, *, progress: bool = False) -> None:
        """Writes the data of all tensors and gives the file its name. ``progress`` shows a bar of tqdm, if it is installed."""
        self.write_ti_data_to_file()
        self._stage = 4
        if self.dry_run:
            return
        bar = None
        if progress:
            from tqdm import tqdm

            total = sum(tensor["nbytes"] for file in self.plan() for tensor in file["tensors"].values())
            bar = tqdm(desc="Writing", total=total, unit="byte", unit_scale=True)
        try:
            for index, data in enumerate(self._data):
                if data is None:
                    raise ValueError("a tensor of add_tensor_info has no data")
                self._write(*data, bar)
                self._data[index] = None
        except BaseException:
            self._native.discard()
            raise
        finally:
            if bar is not None:
                bar.close()
        self._native.finish()

    def _write(self, tensor, kind, bar=None) -> None:
        """Passes an array on in pieces of whole rows, encoded to ``kind`` if that is a type."""
        import numpy as np

        array = np.asarray(tensor)
        if not array.size:
            return
        rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
        step = max(1, _PIECE // max(1, rows[:1].nbytes))
        for start in range(0, len(rows), step):
            piece = rows[start : start + step]
            if kind is None:
                little = piece.dtype.newbyteorder("<")
                piece = np.ascontiguousarray(piece, dtype=little)
            else:
                piece = _native.encode(np.ascontiguousarray(piece, dtype=np.float32), kind, None)
            self._native.write(piece.reshape(-1).view(np.uint8))
            if bar is not None:
                bar.update(piece.nbytes)

    def _step(self, stage, name) -> None:
        if self._stage != stage:
            raise ValueError(f"{name} cannot be written now; the calls are made in the order of gguf-py")
        self._stage = stage + 1

    def flush(self) -> None:
        """Does nothing: a file that is not complete has no name yet."""

    def close(self) -> None:
        """Completes the file. A file whose calls ended with :meth:`write_kv_data_to_file` has only metadata."""
        stage, self._stage = self._stage, 4
        if stage == 2 and not self.dry_run:
            if self.path is None:
                raise ValueError("missing path of the output")
            self._native.write_metadata(self.path, True)
        elif stage == 3:
            self._native.finish()

    def __enter__(self) -> GGUFWriter:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._stage = 4
            self._native.discard()
