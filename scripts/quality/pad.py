"""A model whose rows divide by 256, with the logits of one whose rows do not.

    pad.py IN.gguf OUT.gguf [--multiple 256] [--seed 1]

K types need rows of whole blocks of 256. The residual stream gets blocks of 32 zeros between its own, spread evenly, and heads of
zeros are added where the heads together do not divide. Columns of the stream, of the feed-forward part and of the values of a head
are permuted: those of a model that was in 4 bits before lie on grids of 32 columns, which other types of such blocks would meet
exactly. A zero stays a zero through every layer:

    RMS norm:  mean over n' > n columns is n/n' of the mean over n, so weights and epsilon take sqrt(n/n') and n/n'
    attention: values of a zero head are zero, whatever its weights are
    Gemma:     embeddings times sqrt(n'), so the embedding takes sqrt(n/n'), and the output norm its inverse

Weights become bf16: what is measured on the padded model is measured against the padded model. Needs numpy and the package `gguf`.
"""

import argparse
import sys

import gguf
import numpy as np

ZERO_BLOCK = 32


def spread(n, multiple):
    """Where each of n columns goes among n' >= n, the next multiple."""
    wide = -(-n // multiple) * multiple
    blocks, slots = n // ZERO_BLOCK, wide // ZERO_BLOCK
    assert n % ZERO_BLOCK == 0, n
    places = np.arange(blocks) * slots // blocks
    return (places[:, None] * ZERO_BLOCK + np.arange(ZERO_BLOCK)).reshape(-1), wide


def spread_heads(n_head, n_kv, width, multiple):
    """Where the rows of query and of key and value heads go, and how many of both there are then."""
    heads, kv = n_head, n_kv
    while heads * width % multiple or heads % kv:
        # More queries for each key if these divide then, else more keys.
        heads, kv = (heads + n_kv, kv) if (heads + n_kv) * width % multiple == 0 else (heads + n_head // n_kv, kv + 1)
    group, wide_group = n_head // n_kv, heads // kv
    head = np.arange(n_head)
    queries = head // group * wide_group + head % group
    rows = lambda of: (of[:, None] * width + np.arange(width)).reshape(-1)
    return rows(queries), heads, rows(np.arange(n_kv)), kv


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--multiple", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.input)
    arch = reader.fields["general.architecture"].contents()
    if arch not in ("llama", "qwen2", "gemma3"):
        sys.exit(f"pad.py: {arch}: not known how its norms and heads take zeros")
    key = lambda name: reader.fields[f"{arch}.{name}"].contents()
    n, n_head, n_kv = key("embedding_length"), key("attention.head_count"), key("attention.head_count_kv")
    head = key("attention.key_length") if f"{arch}.attention.key_length" in reader.fields else n // n_head
    stream, wide = spread(n, args.multiple)
    queries, heads, keys, kv = spread_heads(n_head, n_kv, head, args.multiple)
    random = np.random.RandomState(args.seed)
    stream = random.permutation(stream)
    feed = random.permutation(key("feed_forward_length"))
    # Of a head's values alone: those of queries and keys are rotated in pairs.
    inner = random.permutation(head)
    values_of = lambda rows: rows.reshape(-1, head)[:, inner].reshape(-1)
    ratio = np.float64(n) / wide

    def padded(values, axis, places, size):
        shape = list(values.shape)
        shape[axis] = size
        out = np.zeros(shape, np.float32)
        at = [slice(None)] * values.ndim
        at[axis] = places
        out[tuple(at)] = values
        return out

    def tensor(name, values):
        part = name.removesuffix(".weight").removesuffix(".bias").split(".")[-1]
        last = values.ndim - 1
        if part == "token_embd":
            values = values * np.sqrt(ratio) if arch == "gemma3" else values
            return padded(values, last, stream, wide)
        if part == "output":
            return padded(values, last, stream, wide)
        if part in ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "output_norm"):
            scale = 1.0 if arch == "gemma3" and part == "output_norm" else np.sqrt(ratio)
            return padded((values * scale).astype(np.float32), 0, stream, wide)
        if part in ("attn_q", "attn_k", "attn_v"):
            rows, n_rows = (queries, heads * head) if part == "attn_q" else (keys, kv * head)
            values = padded(values, 0, values_of(rows) if part == "attn_v" else rows, n_rows)
            return padded(values, 1, stream, wide) if values.ndim == 2 else values
        if part == "attn_output":
            return padded(padded(values, 1, values_of(queries), heads * head), 0, stream, wide)
        if part in ("ffn_gate", "ffn_up"):
            return padded(padded(values, 1, stream, wide), 0, feed, len(feed))
        if part == "ffn_down":
            return padded(padded(values, 1, feed, len(feed)), 0, stream, wide)
        if part in ("attn_q_norm", "attn_k_norm", "rope_freqs"):
            return values
        sys.exit(f"pad.py: {name}: not known where its zeros go")

    changed = {
        f"{arch}.embedding_length": wide,
        f"{arch}.attention.head_count": heads,
        f"{arch}.attention.head_count_kv": kv,
        f"{arch}.attention.layer_norm_rms_epsilon": key("attention.layer_norm_rms_epsilon") * ratio,
        "general.file_type": int(gguf.LlamaFileType.MOSTLY_BF16),
    }
    writer = gguf.GGUFWriter(args.output, arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, changed.get(field.name, field.contents()), kind, sub_type=sub)
    # The width of a head is no longer the stream's divided by their number.
    for name in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
        if f"{arch}.{name}" not in reader.fields:
            writer.add_uint32(f"{arch}.{name}", head)
    for it in reader.tensors:
        values = gguf.quants.dequantize(it.data, it.tensor_type).astype(np.float32)
        values = tensor(it.name, values.reshape([int(d) for d in reversed(it.shape)]))
        if values.ndim == 1:
            writer.add_tensor(it.name, values)
        else:
            kind = gguf.GGMLQuantizationType.BF16
            writer.add_tensor(it.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{args.output}: stream {n} -> {wide}, heads {n_head}/{n_kv} -> {heads}/{kv}")


main()
