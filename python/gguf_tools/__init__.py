"""Convert, quantize, inspect and evaluate GGUF model files.

    import gguf_tools as gt

    gt.convert("Llama-3.2-1B", "llama-q4_k_m.gguf", file_type="q4_k_m")
    gt.save(model, "tuned.gguf", file_type="q8_0", tokenizer=tokenizer)   # a torch model, straight from memory
    file = gt.open("llama-q4_k_m.gguf")
    file.metadata["general.architecture"], file["blk.0.attn_q.weight"].decode()
    gt.verify("llama-q4_k_m.gguf").good
    gt.edit_metadata("llama-q4_k_m.gguf", {"general.name": "My model"})
    gt.perplexity("llama-q4_k_m.gguf", Path("wiki.test.raw"))
    gt.Model("llama-q4_k_m.gguf").generate("The capital of France is", max_tokens=8)

Warnings are :class:`GgufWarning`, and notes go to the logger ``gguf_tools``. Files are byte-identical to those of the command
line.
"""

from __future__ import annotations

from ._check_against import CheckReport, Finding, Responsible, check_against, record
from ._edit import Report, change_endian, diff, edit_metadata, export_metadata, extract, fit, hash, merge, split, summary, verify
from ._errors import GgufError, GgufWarning
from ._files import File, Metadata, Tensor, open
from ._jobs import (
    PlannedFile, assemble, convert, convert_adapter, convert_projector, convert_vocab, export, part, plan,
    plan_parts, quantize, recipe, save,
)
from ._measures import (
    Comparison, Continuations, Estimate, Imatrix, Perplexity, TensorDifference, Verdict, check, compare, imatrix,
    perplexity,
)
from ._model import ChatSession, Model, Score
from ._native import __version__
from ._publish import publish
from ._types import TensorType, architectures, decode, encode, tensor_types, types
from ._writer import GGUFWriter

__all__ = [
    "ChatSession", "CheckReport", "Comparison", "Continuations", "Estimate", "File", "Finding", "GGUFWriter",
    "GgufError", "GgufWarning", "Imatrix", "Metadata", "Model", "Perplexity", "PlannedFile", "Report", "Responsible",
    "Score", "Tensor", "TensorDifference", "TensorType", "Verdict", "__version__", "architectures", "assemble", "change_endian",
    "check", "check_against", "compare", "convert", "convert_adapter", "convert_projector", "convert_vocab", "decode",
    "diff", "edit_metadata", "encode", "export", "export_metadata", "extract", "fit", "hash", "imatrix", "merge",
    "open", "part", "perplexity", "plan", "plan_parts", "publish", "quantize", "recipe", "record", "save", "split",
    "summary", "tensor_types", "types", "verify",
]
