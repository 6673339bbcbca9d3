"""Makes golden/check-against: records of tiny checkpoints of golden/arch in transformers.

Needs torch, transformers, sentencepiece. NAME.json and NAME.f32 are a record as `gguf_tools.record` writes it (the format
is documented in crates/toolkit/src/check_against/record.rs). Tokenizers without a chat template get one. `llama-tuned`
is `llama` with the product of two matrices of rank 2 added to the queries and values of each layer: an adapter that was merged.
"""

import importlib.util

import torch
import transformers

from families import LOGITS, RECORDS
from lib import GOLDEN

TUNED = "llama-tuned"
# The tests set the same template in their files.
TEMPLATE = (GOLDEN.parent / "crates/toolkit/tests/data/check-against.jinja").read_text().rstrip("\n")
POSITIONS = 6


def recorder():
    """The module of the Python package that writes records. It does not need the package."""
    path = GOLDEN.parent / "python" / "gguf_tools" / "_record.py"
    spec = importlib.util.spec_from_file_location("gguf_tools_record", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tune(model):
    generator = torch.Generator().manual_seed(20261126)
    for layer in model.model.layers:
        for matrix in (layer.self_attn.q_proj.weight, layer.self_attn.v_proj.weight):
            out, inner = matrix.shape
            low = [torch.randn(n, 2, generator=generator) * 0.05 for n in (out, inner)]
            matrix.data += low[0] @ low[1].T


def make(ctx):
    transformers.utils.logging.set_verbosity_error()
    record = recorder()
    for name in (*RECORDS, TUNED):
        if not ctx.wants(name):
            continue
        folder = ctx.checkpoint(name.removesuffix("-tuned"))
        config = transformers.AutoConfig.from_pretrained(folder)
        for key, value in LOGITS.get(name, {}).get("config", {}).items():
            setattr(config, key, value)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=torch.float32, attn_implementation="eager")
        # The class that transformers chooses for a family may add its own pre-tokenizer or normalizer.
        kind = RECORDS.get(name) or ("PreTrainedTokenizerFast" if (folder / "tokenizer.json").exists() else "LlamaTokenizer")
        tokenizer = getattr(transformers, kind).from_pretrained(folder)
        if not tokenizer.chat_template:
            tokenizer.chat_template = TEMPLATE
        if name == TUNED:
            tune(model)
        out = ctx.golden / "check-against" / f"{name}.json"
        out.parent.mkdir(exist_ok=True)
        record.write(model, tokenizer, out, positions=POSITIONS)
