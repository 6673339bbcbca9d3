"""Makes those files of golden/logits/ whose families the converter does not write: what libllama predicts.

LOGITS_FILES of the families' golden.py has their layers and keys. Each is a GGUF file with the tokenizer of
golden/arch/mistral and seeded weights. NAME.head is what stands before its tensors; files.json has of each

  seed, n_bytes, sha256 of the whole file
  tensors  {name: [where its values begin, shape (row length first), values as in checkpoint.py]}

Needs a C++ compiler and gguf-py. Tokens, positions and NAME.bin are those of logits.py, the run that of
logits_reference.py.
"""

import json

import numpy as np

import arch
import checkpoint
from families import LOGITS_FILES
from headers import N_EMBD, N_FF, N_HEAD, N_HEAD_KV, N_LAYER
from lib import seed_of, sha256
from logits_reference import build, predict


def write(path, name, tokenizer):
    import gguf
    shapes, more = LOGITS_FILES[name]
    writer = gguf.GGUFWriter(path, name)
    for key, field in tokenizer.fields.items():
        if key.startswith("tokenizer."):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), kind, sub_type=inner)
    n_vocab = len(tokenizer.fields["tokenizer.ggml.tokens"].data)
    keys = {"context_length": 128, "embedding_length": N_EMBD, "feed_forward_length": N_FF, "block_count": N_LAYER,
            "attention.head_count": N_HEAD, "attention.head_count_kv": N_HEAD_KV} | more
    for key, value in keys.items():
        add = writer.add_array if isinstance(value, list) else writer.add_bool if isinstance(value,
            bool) else writer.add_uint32
        add(f"{name}.{key}", value)
    writer.add_float32(f"{name}.attention.layer_norm_rms_epsilon", 1e-5)
    tensors = {"token_embd.weight": [n_vocab, N_EMBD], "output_norm.weight": [N_EMBD],
        "output.weight": [n_vocab, N_EMBD]}
    tensors |= {f"blk.{i}.{tensor}": shape for i in range(N_LAYER) for tensor, shape in shapes.items()}
    for tensor, shape in tensors.items():
        writer.add_tensor(tensor, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def cut(path, seed, out):
    """Replaces the values of a file's tensors by seeded ones, writes what is before them, and returns what they
    are."""
    import gguf
    reader = gguf.GGUFReader(path, "r+")
    tensors = {}
    for tensor in reader.tensors:
        values = "near-one" if "norm" in tensor.name else "wide"
        shape = [int(n) for n in tensor.shape]
        tensor.data.reshape(-1)[:] = np.frombuffer(checkpoint.tensor_bytes(seed, tensor.name, "F32", shape, values),
            "<f4")
        tensors[tensor.name] = [int(tensor.data_offset), shape, values]
    reader.data.flush()
    data = path.read_bytes()
    out.write_bytes(data[:reader.data_offset])
    return dict(seed=seed, n_bytes=len(data), sha256=sha256(data), tensors=tensors)


def make(ctx):
    import gguf
    from predictions import tokens_of, write as write_logits
    out, mistral = ctx.golden / "logits", ctx.scratch / "mistral.gguf"
    arch.convert(ctx.checkpoint("mistral"), mistral, "f32", "default", {})
    tokenizer = gguf.GGUFReader(mistral)
    tokens = tokens_of({"model_type": "", "vocab_size": len(tokenizer.fields["tokenizer.ggml.tokens"].data)})
    program = build(ctx.reference, ctx.libraries, ctx.scratch)
    files = {}
    for name in LOGITS_FILES:
        path = ctx.scratch / f"{name}.gguf"
        write(path, name, tokenizer)
        files[name] = cut(path, seed_of(name), out / f"{name}.head")
        write_logits(out, name, tokens, predict(program, path, tokens))
    lines = (f"  {json.dumps(name)}: {json.dumps(file)}" for name, file in files.items())
    (out / "files.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
