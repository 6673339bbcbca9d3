"""Conversion of models in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native
from ._calls import as_path, text_path
from ._options import SaveOptions, keywords, options, put, with_recipe_file
from ._progress import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from typing_extensions import Unpack

    from ._annotations import Module
    from ._options import StrPath


@keywords(SaveOptions)
def save(
    model: Module | Mapping[str, Any],
    out: StrPath,
    *,
    config: Any = None,
    tokenizer: Any = None,
    generation_config: Any = None,
    name: str | None = None,
    **given: Unpack[SaveOptions],
) -> list[Path]:
    """Converts a model in memory to GGUF files, without an intermediate checkpoint.

    Arrays are read in place, without a copy, unless they are on another device or not contiguous. Do not write to them
    during the call.

    Args:
        model: Model of transformers, or a state dict: arrays of torch or NumPy by the names that ``save_pretrained`` uses.
        out: File or folder to write, as in :func:`convert`.
        config: Contents of ``config.json``, as a dict or a config of transformers. Default: the config of the model.
        tokenizer: Tokenizer of transformers, folder with tokenizer files, or a dict of file names and contents.
        generation_config: Contents of ``generation_config.json``. Default: that of the model.
        name: Name of the model if neither ``model_name`` nor the config states one.

    Returns:
        The paths of the files.

    Raises:
        GgufError: A tensor does not fit the config, or an option or the output is invalid.
        TypeError: An array has a type that checkpoints do not support.

    Example:
        >>> gt.save(model, "tuned-q8_0.gguf", file_type="q8_0", tokenizer=tokenizer)
    """
    import json

    from . import _memory

    loaded = _memory.load(model, config, tokenizer, generation_config, name)

    def run(given):
        chosen = options("save", SaveOptions, given)
        put(chosen, "output.out", text_path(out))
        with shown(given.get("progress")) as report:
            return json.loads(_native.save(*loaded, json.dumps(chosen), report))

    return [as_path(output["path"]) for output in with_recipe_file(given, run)["outputs"]]
