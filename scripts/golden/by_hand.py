"""Base of converters for families that the reference has no class for. A golden.py names a function that returns one
under `expect`.

Names and keys are those of the GGUF specification, those of Persimmon from the last llama.cpp that read it. Each is a
class of the reference's own kind, so that general keys, tokenizer and tensor data come from the reference.
"""

import re

import gguf
from conversion.base import TextModel


class HandWritten(TextModel):
    """A converter whose keys and names come from subclasses."""
    model_arch = gguf.MODEL_ARCH.GPTJ
    arch_name = "gptj"
    names: dict[str, str] = {}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gguf_writer.kv_data[0]["general.architecture"].value = self.arch_name
        self.gguf_writer.arch = self.arch_name

    def modify_tensors(self, data_torch, name, bid):
        for pattern, new_name in self.names.items():
            if match := re.fullmatch(pattern, name):
                yield match.expand(new_name), self.reshape(new_name, data_torch)
                return
        raise ValueError(name)

    def reshape(self, new_name, data_torch):
        return data_torch


def spare_arch(arch: str, tensors: list):
    """The reference has no id for it; one that no golden uses is lent."""
    lent = gguf.MODEL_ARCH.PLAMO
    gguf.MODEL_ARCH_NAMES[lent] = arch
    gguf.MODEL_TENSORS[lent] = tensors
    return lent
