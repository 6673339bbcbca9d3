#!/usr/bin/env python3
"""Makes golden/logits/NAME.gguf and NAME.bin of families that run and that no checkpoint of golden/arch stands for.

usage: logits_files.py --reference LLAMA_CPP --library FOLDER TOKENIZER OUT

  LLAMA_CPP   the reference's source: gguf-py writes the files, the headers compile the program of logits_reference.py
  FOLDER      with libllama.so, libggml.so and libggml-base.so
  TOKENIZER   a tiny GGUF file whose tokenizer they get (golden/arch/mistral converted at f32)
  OUT         golden/logits

Seeded weights in f32 under the keys and names that the reference reads for each family; it then predicts 32 tokens.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

N_EMBD, N_HEAD, N_HEAD_KV, N_FF, N_LAYER = 16, 4, 2, 24, 2


def layer(n_head_kv=N_HEAD_KV, n_ff=N_FF, bias=False):
    """Shapes of a plain layer, rows first."""
    width, narrow = N_EMBD, n_head_kv * N_EMBD // N_HEAD
    shapes = {"attn_norm": [width], "attn_q": [width, width], "attn_k": [narrow, width], "attn_v": [narrow, width],
              "attn_output": [width, width], "ffn_norm": [width], "ffn_gate": [n_ff, width], "ffn_up": [n_ff, width],
              "ffn_down": [width, n_ff]}
    named = {f"{name}.weight": shape for name, shape in shapes.items()}
    return named | ({f"attn_{x}.bias": shapes[f"attn_{x}"][:1] for x in "qkv"} if bias else {})


def fused(shapes):
    """One projection for all, whose feed-forward part is half as wide as the key says."""
    rest = {name: shape for name, shape in shapes.items() if name[:6] not in ("attn_q", "attn_k", "attn_v")}
    return rest | {"attn_qkv.weight": [3 * N_EMBD, N_EMBD], "attn_qkv.bias": [3 * N_EMBD]}


def renamed(shapes, old, new):
    return {name.replace(old, new): shape for name, shape in shapes.items()}


ROPE = {"rope.dimension_count": N_EMBD // N_HEAD}
WIDTHS = {"attention.key_length": N_EMBD // N_HEAD, "attention.value_length": N_EMBD // N_HEAD}
# The value of general.architecture: tensors of a layer, further keys.
FAMILIES = {
    "dream": (layer(bias=True), ROPE | {"attention.causal": False}),
    "exaone": (layer(), ROPE),
    "qwen": (fused(layer(N_HEAD, N_FF // 2)), ROPE | {"attention.head_count_kv": N_HEAD}),
    "qwen2vl": (layer(bias=True), ROPE | {"rope.dimension_sections": [1, 1, 0, 0]}),
    "refact": (layer(1), {"attention.head_count_kv": 1}),
    "seed_oss": (renamed(layer(bias=True), "ffn_norm", "post_attention_norm"), ROPE | WIDTHS),
    "xverse": (layer(), ROPE),
}


def write(path, name, tokenizer):
    import gguf
    shapes, more = FAMILIES[name]
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
        add = writer.add_array if isinstance(value, list) else writer.add_bool if isinstance(value, bool) else writer.add_uint32
        add(f"{name}.{key}", value)
    writer.add_float32(f"{name}.attention.layer_norm_rms_epsilon", 1e-5)
    tensors = {"token_embd.weight": [n_vocab, N_EMBD], "output_norm.weight": [N_EMBD], "output.weight": [n_vocab, N_EMBD]}
    tensors |= {f"blk.{i}.{tensor}": shape for i in range(N_LAYER) for tensor, shape in shapes.items()}
    random = np.random.default_rng(list(name.encode()))
    for tensor, shape in tensors.items():
        values = random.standard_normal(shape) * 0.2 + (1.0 if "norm" in tensor else 0.0)
        writer.add_tensor(tensor, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    sys.path.insert(0, str(args.reference / "gguf-py"))
    import gguf
    from logits import positions_of, tokens_of
    from logits_reference import build, predict
    tokenizer = gguf.GGUFReader(args.tokenizer)
    tokens = tokens_of({"vocab_size": len(tokenizer.fields["tokenizer.ggml.tokens"].data)})
    positions = positions_of(tokens)
    with tempfile.TemporaryDirectory() as scratch:
        program = build(args.reference, args.library, Path(scratch))
        for name in FAMILIES:
            path = args.out / f"{name}.gguf"
            write(path, name, tokenizer)
            logits = predict(program, path, tokens)
            head = dict(tokens=tokens, positions=positions, n_vocab=logits.shape[1], range=float(logits.max() - logits.min()))
            (args.out / f"{name}.bin").write_bytes(json.dumps(head).encode() + b"\n" + logits[positions].tobytes())


if __name__ == "__main__":
    main()
