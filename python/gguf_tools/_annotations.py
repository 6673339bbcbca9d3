"""Types of arguments that need NumPy or no value at run time. Only type checkers import this module."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, Union

import numpy as np
import numpy.typing as npt

Text = Union[str, bytes, PathLike[str]]
Activations = Literal["f32", "rounded"]
Ids = Union[Sequence[int], npt.NDArray[np.integer[Any]]]
Messages = Sequence[Mapping[str, Any]]
Value = Union[int, float, bool, str, bytes, list[Any]]


class Module(Protocol):
    """A model of torch."""

    def state_dict(self) -> Mapping[str, Any]: ...
