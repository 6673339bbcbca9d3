from collections.abc import Callable, Generator, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Sequence, Union, overload

import numpy as np
import numpy.typing as npt

__version__: str
__all__ = [
    "ChatSession",
    "CheckReport",
    "Comparison",
    "Continuations",
    "Estimate",
    "File",
    "Finding",
    "GGUFWriter",
    "GgufError",
    "GgufWarning",
    "Imatrix",
    "Metadata",
    "Model",
    "Perplexity",
    "PlannedFile",
    "Responsible",
    "Score",
    "Tensor",
    "TensorDifference",
    "TensorType",
    "Verdict",
    "__version__",
    "architectures",
    "assemble",
    "change_endian",
    "check",
    "check_against",
    "compare",
    "convert",
    "convert_adapter",
    "convert_projector",
    "convert_vocab",
    "decode",
    "diff",
    "edit_metadata",
    "encode",
    "export",
    "export_metadata",
    "extract",
    "fit",
    "hash",
    "imatrix",
    "merge",
    "open",
    "part",
    "perplexity",
    "plan",
    "plan_parts",
    "publish",
    "quantize",
    "recipe",
    "record",
    "save",
    "split",
    "summary",
    "tensor_types",
    "types",
    "verify",
]

_Path = Union[str, PathLike[str]]
_Progress = Union[Callable[[int, int], object], Literal[False]]
_Lora = Union[_Path, Sequence[Union[_Path, tuple[_Path, float]]], Mapping[Any, float]]
_Size = Union[int, str]
_Texts = Union[str, Sequence[str]]
_Paths = Union[_Path, Sequence[_Path]]
_TensorTypes = Union[Mapping[str, str], _Texts]
_Keys = Union[Mapping[str, Any], _Texts]
_Text = Union[str, bytes, PathLike[str]]
_Activations = Literal["f32", "rounded"]
_Ids = Union[Sequence[int], npt.NDArray[np.integer[Any]]]
_Messages = Sequence[Mapping[str, Any]]
_Value = Union[int, float, bool, str, bytes, list[Any]]

class GgufWarning(UserWarning): ...

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

class GGUFWriter:
    path: str | None
    arch: str
    dry_run: bool
    def __init__(
        self,
        path: _Path | None,
        arch: str,
        use_temp_file: bool = False,
        endianess: Any = "little",
        split_max_tensors: int = 0,
        split_max_size: int = 0,
        dry_run: bool = False,
        small_first_shard: bool = False,
    ) -> None: ...
    def add_key_value(self, key: str, val: Any, vtype: Any, sub_type: Any = None) -> None: ...
    def remove_key(self, key: str) -> None: ...
    def add_uint8(self, key: str, val: int) -> None: ...
    def add_int8(self, key: str, val: int) -> None: ...
    def add_uint16(self, key: str, val: int) -> None: ...
    def add_int16(self, key: str, val: int) -> None: ...
    def add_uint32(self, key: str, val: int) -> None: ...
    def add_int32(self, key: str, val: int) -> None: ...
    def add_float32(self, key: str, val: float) -> None: ...
    def add_uint64(self, key: str, val: int) -> None: ...
    def add_int64(self, key: str, val: int) -> None: ...
    def add_float64(self, key: str, val: float) -> None: ...
    def add_bool(self, key: str, val: bool) -> None: ...
    def add_string(self, key: str, val: str) -> None: ...
    def add_array(self, key: str, val: Sequence[Any]) -> None: ...
    def add_architecture(self) -> None: ...
    def add_custom_alignment(self, alignment: int) -> None: ...
    def add_tensor_extra_prec_a4(self, tensor_names: Sequence[str], values: Sequence[bool]) -> None: ...
    def add_dense_features_dims(self, dense: str, in_f: int, out_f: int) -> None: ...
    def add_chat_template(self, value: str | Sequence[Mapping[str, str]] | None) -> None: ...
    def __getattr__(self, name: str) -> Callable[..., None]: ...
    def __dir__(self) -> list[str]: ...
    def add_tensor_info(
        self,
        name: str,
        tensor_shape: Sequence[int],
        tensor_dtype: npt.DTypeLike,
        tensor_nbytes: int,
        raw_dtype: Any = None,
    ) -> None: ...
    def add_tensor(
        self,
        name: str,
        tensor: npt.NDArray[Any],
        raw_shape: Sequence[int] | None = None,
        raw_dtype: Any = None,
        tensor_endianess: Any = None,
    ) -> None: ...
    def add_tensor_as(self, name: str, array: npt.ArrayLike, dtype: Any) -> None: ...
    def plan(self) -> list[dict[str, Any]]: ...
    def open_output_file(self, path: _Path | None = None) -> None: ...
    def write_header_to_file(self, path: _Path | None = None) -> None: ...
    def write_kv_data_to_file(self) -> None: ...
    def write_ti_data_to_file(self) -> None: ...
    def write_tensor_data(self, tensor: npt.NDArray[Any], tensor_endianess: Any = None) -> None: ...
    def write_tensors_to_file(self, *, progress: bool = False) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> GGUFWriter: ...
    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None: ...

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
    file: str
    nbytes: int
    bits_per_weight: float
    tokens: int | None
    base_perplexity: Estimate | None
    perplexity: Estimate | None
    perplexity_ratio: Estimate | None
    kl: Estimate | None
    kl_quantiles: dict[str, float] | None
    same_top: Estimate | None
    same_top_k: Estimate | None
    correlation: float | None
    probability_change: Estimate | None
    kl_by_position: list[float] | None
    kl_by_chunk: list[float] | None
    tensors: dict[str, TensorDifference] | None
    continuations: Continuations | None

class Continuations(NamedTuple):
    n_prompts: int
    prompt_tokens: int
    continuation_tokens: int
    same: Estimate
    tokens_before_difference: Estimate

class TensorDifference(NamedTuple):
    name: str
    base_type: str
    type: str
    elements: int
    rmse: float
    base_rms: float
    snr_db: float | None
    cosine: float
    max_error: float

class Imatrix(NamedTuple):
    path: str
    entries: int
    chunks: int
    context: int
    datasets: list[str]
    not_covered: dict[str, list[int]]

class Verdict(NamedTuple):
    metric: Literal["perplexity", "divergence"]
    value: float
    baseline: float
    highest: float | None
    is_worse: bool

class Score(NamedTuple):
    accuracy: float
    error: float
    interval: tuple[float, float]
    correct: int
    tasks: int
    chance: float

class ChatSession:
    @overload
    def ask(self, message: str, *, stream: Literal[False] = False) -> str: ...
    @overload
    def ask(self, message: str, *, stream: Literal[True]) -> Generator[str, None, None]: ...
    def reset(self) -> None: ...
    def set_system(self, system: str | None) -> None: ...

class Model:
    path: _Path
    metadata: Metadata
    def __init__(
        self, path: _Path, *, threads: int | None = None, activations: _Activations = "f32", lora: _Lora = ()
    ) -> None: ...
    @property
    def architecture(self) -> str: ...
    @property
    def context_length(self) -> int | None: ...
    @property
    def n_vocab(self) -> int: ...
    @property
    def labels(self) -> list[str]: ...
    def tokenize(self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False) -> list[int]: ...
    def detokenize(self, ids: _Ids) -> str: ...
    def detokenize_bytes(self, ids: _Ids) -> bytes: ...
    def apply_chat_template(
        self,
        messages: _Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        template: str | None = None,
        date: str | None = None,
        **variables: Any,
    ) -> str: ...
    def starts_with_bos(self, text: str) -> bool: ...
    def logits(self, ids: _Ids) -> npt.NDArray[np.float32]: ...
    @overload
    def generate(
        self,
        prompt: str | _Messages,
        *,
        max_tokens: int = 128,
        plain: bool = False,
        temperature: float = 0.0,
        top_k: int = 40,
        top_p: float = 0.95,
        seed: int = 0,
        images: _Path | Sequence[_Path] = (),
        audio: _Path | Sequence[_Path] = (),
        mmproj: _Path | None = None,
        image_tokens: int | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
    ) -> str: ...
    @overload
    def generate(
        self,
        prompt: str | _Messages,
        *,
        max_tokens: int = 128,
        plain: bool = False,
        temperature: float = 0.0,
        top_k: int = 40,
        top_p: float = 0.95,
        seed: int = 0,
        images: _Path | Sequence[_Path] = (),
        audio: _Path | Sequence[_Path] = (),
        mmproj: _Path | None = None,
        image_tokens: int | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        stream: Literal[True],
    ) -> Generator[str, None, None]: ...
    def chat(
        self,
        *,
        system: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repeat_penalty: float | None = None,
        seed: int = 0,
        think: bool | None = None,
        chat_template: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> ChatSession: ...
    def embed(
        self,
        texts: str | Sequence[str] | Sequence[tuple[str, str]],
        *,
        pooling: Literal["none", "mean", "cls", "last", "rank"] | None = None,
        normalize: bool = False,
        plain: bool = False,
        progress: _Progress | None = None,
    ) -> Any: ...
    def score(
        self,
        file: _Path,
        format: Literal["hellaswag", "winogrande", "multiple-choice"] = "hellaswag",
        *,
        tasks: int | None = None,
        progress: _Progress | None = None,
    ) -> Score: ...

class _Module(Protocol):
    def state_dict(self) -> Mapping[str, Any]: ...

def convert(
    src: _Path,
    out: _Path,
    *,
    file_type: _Texts | None = None,
    outtype: _Texts | None = None,
    to: Literal["gguf", "whisper.cpp"] = "gguf",
    lora: _Lora = (),
    lora_tokenizer: bool = False,
    mmproj: bool = False,
    mmproj_type: str | None = None,
    imatrix: _Path | None = None,
    missing_imatrix: Literal["error", "ones", "neighbour", "raise-type"] | None = None,
    include_weights: _Texts = (),
    exclude_weights: _Texts = (),
    tensor_types: _TensorTypes = (),
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    leave_output_tensor: bool = False,
    pure: bool = False,
    prune_layers: Sequence[int] = (),
    recipe: _Path | Mapping[str, Any] | None = None,
    save_recipe: _Path | None = None,
    metadata: _Keys = (),
    header_slack: _Size | None = None,
    split_max_size: _Size | None = None,
    split_max_tensors: int | None = None,
    calibrate: _Paths = (),
    calibration_tokens: int | None = None,
    statistics: _Path | None = None,
    rounding: str | None = None,
    eval_text: _Path | None = None,
    inputs_only: bool = False,
    train_scales: bool = False,
    no_verify: bool = False,
    target_size: _Size | None = None,
    target_bpw: float | None = None,
    no_larger_than_type: str | None = None,
    allow_types: _Texts = (),
    keep_types: bool = False,
    model_name: str | None = None,
    pre: str | None = None,
    embed_tokenizer_json: bool = False,
    equal_scores: bool = False,
    arch_as: str | None = None,
    target_model_dir: _Path | None = None,
    config: _Path | None = None,
    mtp: Literal["with", "without", "only"] | None = None,
    dense_modules: bool = False,
    mistral_format: bool = False,
    unmasked_zeros: bool = False,
    repack: bool = False,
    fp8_as: str | None = None,
    via: str | None = None,
    allow_nonfinite: bool = False,
    big_endian: bool = False,
    threads: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: _Path | None = None,
    endpoint: str | None = None,
    keep_downloads: bool = False,
    progress: _Progress | None = None,
) -> list[Path]: ...
def quantize(
    src: _Path,
    out: _Path,
    *,
    file_type: _Texts | None = None,
    outtype: _Texts | None = None,
    lora: _Lora = (),
    allow_requantize: bool = False,
    keep_split: bool = False,
    imatrix: _Path | None = None,
    missing_imatrix: Literal["error", "ones", "neighbour", "raise-type"] | None = None,
    include_weights: _Texts = (),
    exclude_weights: _Texts = (),
    tensor_types: _TensorTypes = (),
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    leave_output_tensor: bool = False,
    pure: bool = False,
    prune_layers: Sequence[int] = (),
    recipe: _Path | Mapping[str, Any] | None = None,
    save_recipe: _Path | None = None,
    metadata: _Keys = (),
    header_slack: _Size | None = None,
    split_max_size: _Size | None = None,
    split_max_tensors: int | None = None,
    calibrate: _Paths = (),
    calibration_tokens: int | None = None,
    statistics: _Path | None = None,
    rounding: str | None = None,
    eval_text: _Path | None = None,
    inputs_only: bool = False,
    train_scales: bool = False,
    no_verify: bool = False,
    target_size: _Size | None = None,
    target_bpw: float | None = None,
    no_larger_than_type: str | None = None,
    allow_types: _Texts = (),
    keep_types: bool = False,
    allow_nonfinite: bool = False,
    big_endian: bool = False,
    threads: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: _Progress | None = None,
) -> list[Path]: ...
def save(
    model: _Module | Mapping[str, Any],
    out: _Path,
    *,
    file_type: _Texts | None = None,
    outtype: _Texts | None = None,
    config: Any = None,
    tokenizer: Any = None,
    generation_config: Any = None,
    name: str | None = None,
    imatrix: _Path | None = None,
    missing_imatrix: Literal["error", "ones", "neighbour", "raise-type"] | None = None,
    include_weights: _Texts = (),
    exclude_weights: _Texts = (),
    tensor_types: _TensorTypes = (),
    output_tensor_type: str | None = None,
    token_embedding_type: str | None = None,
    leave_output_tensor: bool = False,
    pure: bool = False,
    prune_layers: Sequence[int] = (),
    recipe: _Path | Mapping[str, Any] | None = None,
    save_recipe: _Path | None = None,
    metadata: _Keys = (),
    header_slack: _Size | None = None,
    split_max_size: _Size | None = None,
    split_max_tensors: int | None = None,
    model_name: str | None = None,
    pre: str | None = None,
    embed_tokenizer_json: bool = False,
    equal_scores: bool = False,
    arch_as: str | None = None,
    target_model_dir: _Path | None = None,
    mtp: Literal["with", "without", "only"] | None = None,
    dense_modules: bool = False,
    repack: bool = False,
    via: str | None = None,
    allow_nonfinite: bool = False,
    big_endian: bool = False,
    threads: int | None = None,
    overwrite: bool = False,
    progress: _Progress | None = None,
) -> list[Path]: ...
def plan(
    src: _Path,
    **keywords: Any,
) -> list[PlannedFile]: ...
def plan_parts(
    plan: _Path,
    src: _Path,
    out: _Path,
    **keywords: Any,
) -> None: ...
def part(
    plan: _Path,
    number: int,
    count: int,
    *,
    part_files: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    token: str | bool | None = None,
    cache_dir: _Path | None = None,
    endpoint: str | None = None,
    progress: _Progress | None = None,
) -> None: ...
def assemble(
    plan: _Path,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    token: str | bool | None = None,
    cache_dir: _Path | None = None,
    endpoint: str | None = None,
    progress: _Progress | None = None,
) -> list[Path]: ...
def convert_adapter(
    src: _Path,
    out: _Path,
    *,
    file_type: _Texts | None = None,
    outtype: _Texts | None = None,
    base: _Path | None = None,
    model_name: str | None = None,
    arch_as: str | None = None,
    allow_nonfinite: bool = False,
    big_endian: bool = False,
    threads: int | None = None,
    overwrite: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: _Path | None = None,
    endpoint: str | None = None,
    keep_downloads: bool = False,
    progress: _Progress | None = None,
) -> list[Path]: ...
def convert_projector(
    src: _Path,
    out: _Path,
    *,
    file_type: _Texts | None = None,
    outtype: _Texts | None = None,
    tensor_types: _TensorTypes = (),
    metadata: _Keys = (),
    model_name: str | None = None,
    mistral_format: bool = False,
    via: str | None = None,
    allow_nonfinite: bool = False,
    big_endian: bool = False,
    threads: int | None = None,
    overwrite: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: _Path | None = None,
    endpoint: str | None = None,
    keep_downloads: bool = False,
    progress: _Progress | None = None,
) -> list[Path]: ...
def convert_vocab(
    src: _Path,
    out: _Path,
    *,
    file_type: str | None = None,
    outtype: str | None = None,
    model_name: str | None = None,
    pre: str | None = None,
    embed_tokenizer_json: bool = False,
    equal_scores: bool = False,
    arch_as: str | None = None,
    target_model_dir: _Path | None = None,
    mistral_format: bool = False,
    big_endian: bool = False,
    overwrite: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: _Path | None = None,
    endpoint: str | None = None,
) -> Path: ...
def export(
    src: _Path,
    out: _Path,
    *,
    dtype: str = 'bf16',
    split_max_size: _Size | None = None,
    allow_nonfinite: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> Path: ...
def recipe(
    file: _Path,
    output: _Path | None = None,
    *,
    overwrite: bool = False,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: _Path | None = None,
    endpoint: str | None = None,
) -> dict[str, Any]: ...
def publish(
    src: _Path,
    folder: _Path,
    *,
    file_type: _Texts = (),
    ladder: Literal["small", "full"] | None = None,
    fit: _Size | Sequence[_Size] = (),
    fit_context: int | None = None,
    calibrate: _Paths = (),
    calibration_tokens: int | None = None,
    no_calibrate: bool = False,
    target_size: _Size | Sequence[_Size] = (),
    remove: _Texts = (),
    chat_template: _Path | None = None,
    model_name: str | None = None,
    draft: _Paths = (),
    base_type: str | None = None,
    imatrix_text: _Paths = (),
    imatrix_chunks: int | None = None,
    no_imatrix: bool = False,
    eval_text: _Paths = (),
    chunks: int | None = None,
    context: int | None = None,
    drop_dominated: bool = False,
    split_max_size: _Size | None = None,
    base_model: str | None = None,
    repo: str | None = None,
    quantized_by: str | None = None,
    replace_types: bool = False,
    overwrite: bool = False,
    threads: int | None = None,
    activations: Literal["f32", "rounded"] | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: _Path | None = None,
    endpoint: str | None = None,
    progress: _Progress | None = None,
) -> Path: ...
def open(path: _Path) -> File: ...
def verify(
    file: _Path,
    *,
    against: _Path | None = None,
    lora: _Lora = (),
    lora_tokenizer: bool = False,
    only: str | Sequence[str] = (),
    strict: bool = False,
    threads: int | None = None,
    progress: _Progress | None = None,
) -> dict[str, Any]: ...
def diff(a: _Path, b: _Path, *, headers: bool = False, progress: _Progress | None = None) -> dict[str, Any]: ...
def hash(
    files: _Path | Sequence[_Path], *, tensors: bool = False, progress: _Progress | None = None
) -> dict[str, str]: ...
def edit_metadata(
    file: _Path,
    values: Mapping[str, Any] | None = None,
    *,
    unset: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    from_json: _Path | None = None,
    chat_template: str | None = None,
    output: _Path | None = None,
    overwrite: bool = False,
    header_slack: int | None = None,
    dry_run: bool = False,
) -> dict[str, Any]: ...
def export_metadata(file: _Path, *, prefix: str | Sequence[str] = ()) -> dict[str, Any]: ...
def split(
    file: _Path,
    prefix: _Path,
    *,
    max_size: int | str | None = None,
    max_tensors: int | None = None,
    no_tensor_first: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: _Progress | None = None,
) -> list[dict[str, Any]]: ...
def merge(
    shards: _Path | Sequence[_Path],
    output: _Path,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: _Progress | None = None,
) -> dict[str, Any]: ...
def change_endian(
    file: _Path,
    output: _Path,
    order: Literal["little", "big"],
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: _Progress | None = None,
) -> list[dict[str, Any]]: ...
def extract(
    file: _Path,
    tensors: str | Sequence[str],
    output: _Path,
    *,
    f32: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: _Progress | None = None,
) -> dict[str, Any]: ...
def summary(path: _Path) -> dict[str, Any]: ...
def fit(
    path: _Path,
    *,
    memory: int | str | None = None,
    context: int | Sequence[int] = (),
    parallel: int = 1,
    kv_type: str = "f16",
    batch: int = 512,
    also: _Path | Sequence[_Path] = (),
) -> dict[str, Any]: ...
def perplexity(
    file: _Path,
    text: _Text,
    *,
    context: int = 512,
    chunks: int | None = None,
    stride: int | None = None,
    lora: _Lora = (),
    threads: int | None = None,
    activations: _Activations = "f32",
    progress: _Progress | None = None,
) -> Perplexity: ...
@overload
def compare(
    base: _Path,
    others: _Path,
    text: _Text | None = None,
    *,
    context: int = 512,
    chunks: int | None = None,
    continuations: int | None = None,
    top_tokens: int = 10,
    tensors: bool = False,
    html: _Path | None = None,
    save_logits: _Path | None = None,
    overwrite: bool = False,
    lora: _Lora = (),
    threads: int | None = None,
    activations: _Activations = "f32",
    progress: _Progress | None = None,
) -> Comparison: ...
@overload
def compare(
    base: _Path,
    others: list[_Path] | list[str] | list[Path] | tuple[_Path, ...],
    text: _Text | None = None,
    *,
    context: int = 512,
    chunks: int | None = None,
    continuations: int | None = None,
    top_tokens: int = 10,
    tensors: bool = False,
    html: _Path | None = None,
    save_logits: _Path | None = None,
    overwrite: bool = False,
    lora: _Lora = (),
    threads: int | None = None,
    activations: _Activations = "f32",
    progress: _Progress | None = None,
) -> list[Comparison]: ...
def imatrix(
    file: _Path | None,
    texts: _Text | Sequence[_Text] | None,
    out: _Path,
    *,
    context: int = 512,
    chunks: int | None = None,
    process_output: bool = False,
    format: Literal["gguf", "dat"] = "gguf",
    merge: _Path | Sequence[_Path] = (),
    save_every: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    lora: _Lora = (),
    threads: int | None = None,
    activations: _Activations = "f32",
    progress: _Progress | None = None,
) -> Imatrix: ...
def check(
    file: _Path,
    text: _Text,
    baseline: _Path,
    *,
    base: _Path | None = None,
    save: bool = False,
    overwrite: bool = False,
    context: int | None = None,
    chunks: int | None = None,
    perplexity_margin: float | None = None,
    divergence_margin: float | None = None,
    threads: int | None = None,
    activations: _Activations | None = None,
    progress: _Progress | None = None,
) -> list[Verdict]: ...
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
