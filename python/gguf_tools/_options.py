"""Keywords of conversions as options of the toolkit."""

from __future__ import annotations

import os

from . import _native
from ._calls import hub, is_default, size, text_path, text_paths, texts


def adapters(lora) -> list:
    """Paths, pairs of a path and a scale, or a dict of them."""
    if isinstance(lora, dict):
        lora = lora.items()
    elif isinstance(lora, (str, bytes, os.PathLike)):
        lora = [lora]
    pairs = [(path, 1.0) if isinstance(path, (str, bytes, os.PathLike)) else path for path in lora]
    return [{"path": os.fsdecode(path), "scale": float(scale)} for path, scale in pairs]


def _rules(types) -> list:
    """``{PATTERN: TYPE}`` or texts ``PATTERN=TYPE``."""
    if isinstance(types, dict):
        return [f"{pattern}={dtype}" for pattern, dtype in types.items()]
    return texts(types)


def _keys(metadata) -> list:
    """``{KEY: VALUE}`` or texts ``KEY=TYPE:VALUE``."""
    if not isinstance(metadata, dict):
        return texts(metadata)
    return [f"{key}={_typed(key, value)}" for key, value in metadata.items()]


def _typed(key: str, value) -> str:
    if isinstance(value, dict):
        kind, value = value["type"], value["value"]
        return f"{kind}:{str(value).lower() if isinstance(value, bool) else value}"
    if isinstance(value, bool):
        return f"bool:{str(value).lower()}"
    for kind, name in ((str, "str"), (int, "int"), (float, "float")):
        if isinstance(value, kind):
            return f"{name}:{value}"
    raise TypeError(f"metadata key `{key}`: expected bool, int, float or str, found {type(value).__name__}")


def _file_types(names) -> list:
    names = texts(names)
    _native.check_file_types(names)
    return names


def _file_type(name):
    _native.check_file_types([name])
    return name


def _same(value):
    return value


def _format(value):
    return None if value == "gguf" else value


# Option and conversion for each keyword.
_OPTIONS = {
    "src": ("source", text_path),
    "out": ("output.out", text_path),
    "file_type": ("types", _file_types),
    "stated_type": ("file_type", _file_type),
    "to": ("to", _format),
    "lora": ("adapters", adapters),
    "lora_tokenizer": ("lora_tokenizer", _same),
    "mmproj": ("with_mmproj", _same),
    "mmproj_type": ("mmproj_type", _file_type),
    "fp8_as": ("fp8_as", _same),
    "repack": ("repack", _same),
    "config": ("config", text_path),
    "keep_downloads": ("keep", _same),
    "base": ("base", text_path),
    "allow_requantize": ("allow_requantize", _same),
    "keep_split": ("keep_split", _same),
    "mistral_format": ("reading.mistral_format", _same),
    "unmasked_zeros": ("reading.unmasked_zeros", _same),
    "arch_as": ("arch.arch_as", _same),
    "target_model_dir": ("arch.target_model_dir", text_path),
    "mtp": ("arch.prediction", _same),
    "dense_modules": ("arch.dense_modules", _same),
    "model_name": ("naming.model_name", _same),
    "pre": ("naming.pre", _same),
    "embed_tokenizer_json": ("naming.embed_tokenizer_json", _same),
    "equal_scores": ("naming.equal_scores", _same),
    "via": ("encoding.via", _same),
    "allow_nonfinite": ("encoding.allow_nonfinite", _same),
    "big_endian": ("encoding.big_endian", _same),
    "imatrix": ("tensors.imatrix", text_path),
    "missing_imatrix": ("tensors.missing_imatrix", _same),
    "include_weights": ("tensors.include_weights", texts),
    "exclude_weights": ("tensors.exclude_weights", texts),
    "tensor_types": ("tensors.tensor_types", _rules),
    "output_tensor_type": ("tensors.output_tensor_type", _same),
    "token_embedding_type": ("tensors.token_embedding_type", _same),
    "leave_output_tensor": ("tensors.leave_output_tensor", _same),
    "pure": ("tensors.pure", _same),
    "prune_layers": ("tensors.prune_layers", list),
    "metadata": ("tensors.override_kv", _keys),
    "header_slack": ("tensors.header_slack", size),
    "split_max_size": ("tensors.split_max_size", size),
    "split_max_tensors": ("tensors.split_max_tensors", _same),
    "recipe": ("tensors.recipe", text_path),
    "save_recipe": ("tensors.save_recipe", text_path),
    "calibrate": ("calibration.calibrate", text_paths),
    "calibration_tokens": ("calibration.calibration_tokens", _same),
    "statistics": ("calibration.statistics", text_path),
    "rounding": ("calibration.rounding", _same),
    "eval_text": ("calibration.eval_text", text_path),
    "inputs_only": ("calibration.inputs_only", _same),
    "train_scales": ("calibration.train_scales", _same),
    "no_verify": ("calibration.no_verify", _same),
    "target_size": ("budget.target_size", size),
    "target_bpw": ("budget.target_bpw", _same),
    "no_larger_than_type": ("budget.no_larger_than_type", _same),
    "allow_types": ("budget.allow_types", texts),
    "keep_types": ("budget.keep_types", _same),
    "threads": ("output.threads", _same),
    "overwrite": ("output.force", _same),
    "resume": ("output.resume", _same),
}
_HUB = ("revision", "token", "cache_dir", "endpoint")


def options(given: dict, places: dict | None = None, *, has_hub: bool = True) -> dict:
    """The options of a call for keywords. ``places`` names the options of keywords that the call has elsewhere. Values
    that stand for a default are left out: None, False and empty lists."""
    given = dict(given)
    outtype = given.pop("outtype", None)
    if outtype is not None:
        if given.get("file_type") is not None:
            raise TypeError("file_type and outtype are the same argument")
        given["file_type"] = outtype
    found: dict = {"hub": hub(*(given.pop(name, None) for name in _HUB))} if has_hub else {}
    for keyword, value in given.items():
        if is_default(value):
            continue
        path, convert = _OPTIONS[keyword]
        *groups, name = (places or {}).get(keyword, path).split(".")
        group = found
        for part in groups:
            group = group.setdefault(part, {})
        group[name] = convert(value)
    return found


def with_recipe_file(given: dict, run):
    """Calls ``run`` with keywords. A recipe that is a dict is in a temporary file during the call."""
    if not isinstance(given.get("recipe"), dict):
        return run(given)
    import json
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "recipe.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(given["recipe"], file)
        return run({**given, "recipe": path})
