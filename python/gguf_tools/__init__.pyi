from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Sequence, Union

import numpy as np
import numpy.typing as npt

__version__: str
__all__ = [
    "CheckReport",
    "Comparison",
    "Estimate",
    "File",
    "Finding",
    "GgufError",
    "Metadata",
    "Perplexity",
    "PlannedFile",
    "Responsible",
    "Tensor",
    "TensorType",
    "__version__",
    "architectures",
    "check_against",
    "compare",
    "convert",
    "decode",
    "encode",
    "inspect",
    "perplexity",
    "plan",
    "quantize",
    "record",
    "save",
    "tensor_types",
    "types",
]

_Path = Union[str, PathLike[str]]
_Progress = Callable[[int, int], object]
_Value = Union[int, float, bool, str, bytes, list[Any]]

class GgufError(Exception):
    file: str | None
    tensor: str | None
    key: str | None
    expected: str | None
    found: str | None
    hint: str | None
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
    ) -> None: ...

class Metadata(Mapping[str, _Value]):
    def __init__(self, file: Any) -> None: ...
    def __getitem__(self, key: str) -> _Value: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: object) -> bool: ...

class Tensor:
    name: str
    type: str
    shape: tuple[int, ...]
    path: Path
    offset: int
    nbytes: int
    def __init__(
        self, file: File, name: str, type: str, shape: Sequence[int], path: _Path, offset: int, nbytes: int
    ) -> None: ...
    @property
    def raw(self) -> npt.NDArray[np.uint8]: ...
    def numpy(self) -> npt.NDArray[Any]: ...
    def decode(self) -> npt.NDArray[np.float32]: ...
    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]: ...

class File(Mapping[str, Tensor]):
    path: _Path
    metadata: Metadata
    def __init__(self, path: _Path) -> None: ...
    @property
    def tensors(self) -> list[Tensor]: ...
    def __getitem__(self, name: str) -> Tensor: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

class PlannedFile(NamedTuple):
    name: str
    type: str
    nbytes: int
    bits_per_weight: float
    tensors: dict[str, str]

class TensorType(NamedTuple):
    name: str
    block_elements: int
    block_bytes: int
    encodable: bool
    needs_importance: bool
    @property
    def bits(self) -> float: ...

class Perplexity(NamedTuple):
    value: float
    error: float | None
    mean_loss: float
    chunks: int
    tokens: int

class Estimate(NamedTuple):
    value: float
    error: float

class Comparison(NamedTuple):
    tokens: int
    base_perplexity: Estimate
    perplexity: Estimate
    perplexity_ratio: Estimate
    kl: Estimate
    kl_quantiles: dict[str, float]
    same_top: Estimate
    same_top_k: Estimate
    correlation: float
    probability_change: Estimate

class _Module(Protocol):
    def state_dict(self) -> Mapping[str, Any]: ...

def convert(
    src: _Path,
    out: _Path,
    *,
    type: str | Sequence[str],
    threads: int | None = None,
    imatrix: _Path | None = None,
    overwrite: bool = False,
    model_name: str | None = None,
    progress: _Progress | None = None,
) -> list[Path]: ...
def quantize(
    src: _Path,
    out: _Path,
    *,
    type: str | Sequence[str],
    threads: int | None = None,
    imatrix: _Path | None = None,
    overwrite: bool = False,
    allow_requantize: bool = False,
    progress: _Progress | None = None,
) -> list[Path]: ...
def save(
    model: _Module | Mapping[str, Any],
    out: _Path,
    *,
    type: str | Sequence[str],
    config: Any = None,
    tokenizer: Any = None,
    generation_config: Any = None,
    name: str | None = None,
    threads: int | None = None,
    imatrix: _Path | None = None,
    overwrite: bool = False,
    progress: _Progress | None = None,
) -> list[Path]: ...
def plan(src: _Path, *, type: str | Sequence[str], imatrix: _Path | None = None) -> list[PlannedFile]: ...
def inspect(path: _Path) -> File: ...
def perplexity(
    file: _Path,
    text: str | bytes | PathLike[str],
    *,
    context: int = 512,
    chunks: int | None = None,
    threads: int | None = None,
    activations: Literal["f32", "rounded"] = "f32",
    progress: _Progress | None = None,
) -> Perplexity: ...
def compare(
    base: _Path,
    other: _Path,
    text: str | bytes | PathLike[str],
    *,
    context: int = 512,
    chunks: int | None = None,
    threads: int | None = None,
    activations: Literal["f32", "rounded"] = "f32",
    progress: _Progress | None = None,
) -> Comparison: ...
def encode(
    array: npt.ArrayLike, type: str, *, importance: npt.ArrayLike | None = None
) -> npt.NDArray[np.uint8]: ...
def decode(blocks: npt.NDArray[np.uint8], type: str) -> npt.NDArray[np.float32]: ...
def types() -> list[str]: ...
def tensor_types() -> dict[str, TensorType]: ...
def architectures() -> dict[str, list[str]]: ...

class Responsible(NamedTuple):
    part: Literal["tokenizer", "template", "weights", "graph", "weights or graph"]
    evidence: list[str]
    advice: list[str]

class Finding(NamedTuple):
    check: str
    severity: Literal["note", "warning", "error"]
    code: str
    message: str

class CheckReport:
    facts: dict[str, Any]
    responsible: list[Responsible]
    findings: list[Finding]
    predictions: dict[str, Any] | None
    def __init__(self, text: str, facts: dict[str, Any]) -> None: ...
    @property
    def is_same(self) -> bool: ...
    @property
    def parts(self) -> list[str]: ...

def record(
    model: Any,
    tokenizer: Any,
    path: _Path,
    *,
    texts: Sequence[str] | None = None,
    conversations: Sequence[Any] | None = None,
    sequences: Sequence[Sequence[int]] | None = None,
    positions: int = 16,
    weights: bool = True,
) -> Path: ...
def check_against(
    model: Any,
    file: _Path,
    tokenizer: Any = None,
    *,
    texts: Sequence[str] | None = None,
    conversations: Sequence[Any] | None = None,
    sequences: Sequence[Sequence[int]] | None = None,
    positions: int = 16,
    checkpoint: _Path | None = None,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> CheckReport: ...
