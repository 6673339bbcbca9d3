"""Models in memory as the contents of a checkpoint folder."""

from __future__ import annotations

import json
import os

from ._record import _config_of, _json, _state_dict

# Names in safetensors of the types of torch and NumPy.
_DTYPES = {
    **{f"float{bits}": f"F{bits}" for bits in (64, 32, 16)},
    **{f"int{bits}": f"I{bits}" for bits in (64, 32, 16, 8)},
    **{f"uint{bits}": f"U{bits}" for bits in (64, 32, 16, 8)},
    **{"bfloat16": "BF16", "bool": "BOOL", "complex64": "C64"},
    **{"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0"},
}
# Endings of files with weights and of their index. All other files up to a size limit are passed on.
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".msgpack", ".h5", ".onnx", ".index.json")
_MOST_BYTES = 256 << 20


def load(model, config, tokenizer, generation_config, name):
    """Returns the name, the small files and the tensors of a model: the arguments of ``_native.save``."""
    is_module = not isinstance(model, dict) and hasattr(model, "state_dict")
    tensors = _state_dict(model) if is_module else model
    files = _tokenizer_files(tokenizer)
    if is_module:
        config = _config_of(model) if config is None else config
        if generation_config is None:
            generation_config = getattr(model, "generation_config", None)
    for file, value in (("config.json", config), ("generation_config.json", generation_config)):
        if value is not None:
            files[file] = _json(value)
    if name is None:
        given = json.loads(files["config.json"]) if "config.json" in files else {}
        name = os.path.basename(str(given.get("_name_or_path") or "")) or "model"
    return name, list(files.items()), _tensors(tensors)


def _tokenizer_files(tokenizer) -> dict:
    if tokenizer is None:
        return {}
    if isinstance(tokenizer, dict):
        return {file: content.encode() if isinstance(content, str) else bytes(content) for file, content in tokenizer.items()}
    if hasattr(tokenizer, "save_pretrained"):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            return _folder_files(folder)
    return _folder_files(tokenizer)


def _folder_files(folder) -> dict:
    """Returns the small files of a folder, and the templates and configs of its subfolders."""
    files = {}
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            for inner in os.scandir(entry.path):
                if inner.name == "config.json" or inner.name.endswith(".jinja"):
                    files[f"{entry.name}/{inner.name}"] = _read(inner.path)
        elif not entry.name.endswith(_WEIGHTS) and entry.stat().st_size <= _MOST_BYTES:
            files[entry.name] = _read(entry.path)
    return files


def _read(path) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _tensors(state) -> list:
    """Returns names, types, shapes and bytes. If several names share memory, the first is kept, as in ``save_pretrained``."""
    tensors, places = [], set()
    for name, value in state.items():
        is_torch = hasattr(value, "detach")
        dtype, shape, flat, place = _of_torch(value) if is_torch else _of_numpy(value)
        if dtype not in _DTYPES:
            raise TypeError(f"tensor `{name}`: dtype {dtype} is not supported in checkpoints")
        if flat.size:
            key = (place, dtype, shape)
            if key in places:
                continue
            places.add(key)
        tensors.append((name, _DTYPES[dtype], list(shape), flat))
    return tensors


def _of_torch(tensor):
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = tuple(tensor.shape)
    # Taken before the copy, so that two names of one matrix on another device are recognized.
    place = (str(tensor.device), tensor.data_ptr(), tuple(tensor.stride()))
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return dtype, shape, flat.view(torch.uint8).numpy(), place


def _of_numpy(array):
    import numpy as np

    array = np.asarray(array)
    place = ("cpu", array.__array_interface__["data"][0], array.strides)
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not np.little_endian):
        array = array.astype(array.dtype.newbyteorder("<"))
    flat = np.ascontiguousarray(array).reshape(-1)
    return array.dtype.name, array.shape, flat.view(np.uint8), place
