"""Model repositories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ._calls import as_path, call
from ._options import PublishOptions, keywords, options

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from ._options import StrPath


@keywords(PublishOptions)
def publish(src: StrPath, folder: StrPath, **given: Unpack[PublishOptions]) -> Path:
    """Builds or updates a model repository: GGUF files, importance matrix, measurements, checksums and a model card.

    An interrupted call resumes, and a changed call repeats only the affected stages. Nothing is uploaded.

    Args:
        src: Checkpoint folder, model of the Hub, or GGUF file.
        folder: Folder to create or update.

    Returns:
        The path of the folder.

    Raises:
        GgufError: The input cannot be read, the folder must not be written to, or options contradict each other.

    Example:
        >>> gt.publish("my-tune", "my-tune-GGUF", ladder="full", quantized_by="me")
    """
    chosen = options("publish", PublishOptions, given)
    access = chosen.pop("hub")
    src, folder = os.fsdecode(src), os.fsdecode(folder)
    call("publish", {"options": {"src": src, "dir": folder, **chosen}, "hub": access}, given.get("progress"))
    return as_path(folder)
