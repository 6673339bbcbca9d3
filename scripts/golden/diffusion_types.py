"""Makes golden/diffusion-types/FAMILY.json: the types and bytes of tensors of diffusion models in files of libgguf.

Each checkpoint has tensors with the names of a family, one for each rule, and rows that no block or only some blocks divide. Values are
those of `normal` of data.py (seed: place of the tensor in the file), rounded to the source type. A file of goldens holds:

  arch      general.architecture
  tensors   in the order of the file: name, type in the checkpoint, shape (outermost first), dims (as in the file, row length first),
            stored (type in the file that libgguf writes without quantization, which is that of convert.py of ComfyUI-GGUF),
            data: {type: first 16 digits of the sha256 of the tensor's data}
  files     {file type: file_type: number, types: of all tensors in this order}

`libgguf_quantize_gguf --policy comfy` makes the files. It writes original shapes as 64-bit integers, which ComfyUI-GGUF refuses, so
these keys are not recorded.

Needs libgguf 0.2.2 and numpy.
"""

import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

from data import normal

# (elements, bytes) of a block, by the id of a type.
BLOCKS = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
          8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
          14: ("Q6_K", 256, 210), 30: ("BF16", 1, 2)}
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q2_K_S", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S",
         "Q5_K_M", "Q6_K"]

W, H, N, T = [8, 256], [3, 64], [2, 36], [1, 256]


def each(names, n, shape=W, dtype="BF16"):
    """Tensors of these names in layers 0 to n - 1; `*` is the number of the layer."""
    return [(name.replace("*", str(i)), dtype, shape) for i in range(n) for name in names.split()]


def some(names, shape=W, dtype="BF16"):
    return each(names, 1, shape, dtype)


# Vectors, numbers, and matrices that only some types fit.
def common(prefix):
    return [*some(f"{prefix}.norm.weight {prefix}.proj.bias", [256]), *some(f"{prefix}.narrow.weight", H),
            *some(f"{prefix}.odd.weight", N), *some(f"{prefix}.row.weight", T), *some(f"{prefix}.half.weight", W, "F16"),
            *some(f"{prefix}.single.weight", W, "F32"), *some(f"{prefix}.small.weight", [4, 256]), *some(f"{prefix}.half.bias", [256], "F16"),
            *some(f"{prefix}.conv.weight", [2, 2, 3, 3]), *some(f"{prefix}.cube.weight", [1, 4, 256]), *some(f"{prefix}.matrix", W)]


UNET = [*some("time_embed.0.weight label_emb.0.0.weight class_embedding.weight time_embedding.linear_1.weight add_embedding.linear_1.weight"),
        *some("conv_in.weight conv_out.weight input_blocks.0.0.weight out.2.weight", [16, 4, 4, 2]),
        *some("input_blocks.3.0.op.weight output_blocks.2.1.conv.weight", [32, 16, 3, 3]),
        *some("input_blocks.6.0.op.weight input_blocks.9.0.op.weight output_blocks.2.2.conv.weight output_blocks.5.2.conv.weight "
              "output_blocks.8.2.conv.weight", [4, 4, 3, 3]),
        *some("input_blocks.4.1.proj_in.weight", [32, 32, 1, 1]), *some("input_blocks.4.1.proj_out.weight", [32, 32]),
        *each("input_blocks.*.1.transformer_blocks.0.attn1.to_q.weight input_blocks.*.1.transformer_blocks.0.attn1.to_v.weight "
              "input_blocks.*.1.transformer_blocks.0.ff.net.2.weight", 6), *common("middle_block.1")]
FAMILIES = {
    "flux": [*some("txt_in.weight img_in.weight time_in.in_layer.weight vector_in.in_layer.weight guidance_in.in_layer.weight "
                   "final_layer.linear.weight"),
             *each("double_blocks.*.img_attn.proj.weight double_blocks.*.img_attn.qkv.weight double_blocks.*.img_mlp.2.weight "
                   "single_blocks.*.linear1.weight single_blocks.*.linear2.weight", 2), *common("double_blocks.0")],
    "sd3": [*some("final_layer.linear.weight context_embedder.weight t_embedder.mlp.0.weight y_embedder.mlp.0.weight proj_out.weight "
                  "time_text_embed.text_embedder.linear_1.weight"), *some("x_embedder.proj.weight", [16, 4, 2, 2]),
            *some("pos_embed", [1, 9, 256]),
            *each("joint_blocks.*.x_block.attn.qkv.weight joint_blocks.*.context_block.attn.proj.weight joint_blocks.*.x_block.mlp.fc2.weight", 2),
            *common("joint_blocks.0")],
    "aura": [*some("t_embedder.mlp.0.weight init_x_linear.weight modF.1.weight cond_seq_linear.weight final_linear.weight"),
             *some("positional_encoding register_tokens", [1, 8, 256]),
             *each("double_layers.*.modX.1.weight double_layers.*.attn.w1q.weight double_layers.*.attn.w1v.weight "
                   "double_layers.*.attn.w2v.weight double_layers.*.mlpX.c_proj.weight double_layers.*.mlpC.c_proj.weight "
                   "single_layers.*.attn.w1v.weight single_layers.*.mlp.c_proj.weight", 4), *common("double_layers.0")],
    "hidream": [*some("p_embedder.pooled_embedder.linear_1.weight t_embedder.timestep_embedder.linear_1.weight x_embedder.proj.weight "
                      "final_layer.linear.weight caption_projection.0.linear.weight double_stream_blocks.0.block.ff_i.gate.weight"),
                *each("double_stream_blocks.*.block.attn1.to_v.weight double_stream_blocks.*.block.ff_i.shared_experts.w3.weight "
                      "double_stream_blocks.*.block.ff_i.shared_experts.w2.weight double_stream_blocks.*.block.ff_i.experts.0.w2.weight "
                      "double_stream_blocks.*.block.ff_i.experts.0.w1.weight double_stream_blocks.*.block.ff_t.w2.weight", 5),
                *common("double_stream_blocks.0")],
    "cosmos": [*some("t_embedder.1.linear_1.weight t_embedding_norm.weight x_embedder.proj.1.weight final_layer.linear.weight "
                     "p_embedder.weight pos_embedder.dim_spatial_range.weight"), *some("pos_embedder.seq", [256]),
               *each("blocks.*.mlp.layer1.weight blocks.*.mlp.layer2.weight blocks.*.self_attn.v_proj.weight "
                     "blocks.*.adaln_modulation_cross_attn.1.weight blocks.*.adaln_modulation_mlp.2.weight", 6), *common("blocks.0")],
    "ltxv": [*some("adaln_single.emb.timestep_embedder.linear_2.weight caption_projection.linear_2.weight patchify_proj.weight "
                   "proj_out.weight scale_shift_table"), *some("transformer_blocks.27.scale_shift_table", [6, 256]),
             *each("transformer_blocks.*.attn1.to_v.weight transformer_blocks.*.attn2.to_v.weight transformer_blocks.*.ff.net.0.proj.weight "
                   "transformer_blocks.*.ff.net.2.weight", 3), *common("transformer_blocks.0")],
    "hyvid": [*some("time_in.mlp.0.weight vector_in.in_layer.weight guidance_in.mlp.0.weight final_layer.linear.weight "
                    "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight"), *some("img_in.proj.weight", [16, 2, 1, 2, 2]),
              *each("double_blocks.*.img_attn_proj.weight double_blocks.*.img_attn_qkv.weight double_blocks.*.img_mlp.fc2.weight "
                    "single_blocks.*.linear1.weight", 2), *common("double_blocks.0")],
    "wan": [*some("text_embedding.2.weight time_projection.1.weight time_embedding.0.weight img_emb.proj.1.weight head.head.weight"),
            *some("patch_embedding.weight", [16, 4, 1, 2, 2]), *some("head.modulation", [1, 2, 256]), *some("img_emb.emb_pos", [1, 3, 256]),
            *each("blocks.*.modulation", 2, [1, 6, 256]), *each("blocks.*.self_attn.norm_q.weight", 2, [256]),
            *each("blocks.*.self_attn.q.weight blocks.*.self_attn.v.weight blocks.*.cross_attn.v.weight blocks.*.ffn.0.weight "
                  "blocks.*.ffn.2.weight", 3), *common("blocks.0")],
    "sdxl": UNET,
    "sd1": [tensor for tensor in UNET if tensor[0] not in ("label_emb.0.0.weight", "output_blocks.2.2.conv.weight", "add_embedding.linear_1.weight")],
    "lumina2": [*some("t_embedder.mlp.0.weight x_embedder.weight final_layer.linear.weight cap_embedder.1.weight "
                      "context_refiner.0.attention.qkv.weight noise_refiner.0.feed_forward.w2.weight"),
                *each("layers.*.attention.qkv.weight layers.*.attention.out.weight layers.*.feed_forward.w2.weight", 3), *common("layers.0")],
}


def bf16(values):
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype("<u2")


TO_BYTES = {"BF16": lambda x: bf16(x).tobytes(), "F16": lambda x: x.astype("<f2").tobytes(), "F32": lambda x: x.astype("<f4").tobytes()}


def write_checkpoint(path: Path, tensors) -> None:
    header, body = {}, b""
    for seed, (name, dtype, shape) in enumerate(tensors):
        data = TO_BYTES[dtype](normal(seed, np.arange(int(np.prod(shape)), dtype=np.uint64)))
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[len(body), len(body) + len(data)])
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def read(path: Path):
    """general.architecture, general.file_type, and [name, dims, type, data] of each tensor. Not gguf-py, whose recent releases refuse five dimensions."""
    data, at = path.read_bytes(), 24
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)

    def take(code):
        nonlocal at
        value, = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize("<" + code)
        return value

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode()

    keys = {}
    for _ in range(n_keys):
        key, kind = text(), take("I")
        if kind == 9:
            kind = take("I")
            keys[key] = [take({5: "i", 11: "q"}[kind]) for _ in range(take("Q"))]
        else:
            keys[key] = text() if kind == 8 else take({4: "I"}[kind])
    infos = []
    for _ in range(n_tensors):
        name, n_dims = text(), take("I")
        infos.append((name, [take("Q") for _ in range(n_dims)], take("I"), take("Q")))
    start = (at + 31) // 32 * 32
    tensors = []
    for name, dims, kind, offset in infos:
        label, elems, size = BLOCKS[kind]
        n = int(np.prod(dims)) // elems * size
        tensors.append((name, dims, label, data[start + offset:start + offset + n]))
    return keys["general.architecture"], keys["general.file_type"], tensors


def make_one(name: str, tensors, ctx) -> None:
    checkpoint, out = ctx.scratch / f"{name}.safetensors", ctx.scratch / f"{name}.gguf"
    write_checkpoint(checkpoint, tensors)
    program = Path(sys.executable).with_name("libgguf_quantize_gguf")

    def convert(kind, *options):
        command = [program, "--src", checkpoint, "--dst", out, "--qtype", kind, "--overwrite", "--backend", "cpu", "--threads", "1"]
        subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
        return read(out)

    arch, _, plain = convert("Q8_0", "--exclude", "*")
    shapes = {name: (seed, dtype, shape) for seed, (name, dtype, shape) in enumerate(tensors)}
    rows = []
    for tensor, dims, stored, _ in plain:
        seed, dtype, shape = shapes[tensor]
        rows.append(dict(name=tensor, seed=seed, dtype=dtype, shape=shape, dims=dims, stored=stored, data={}))
    files = {}
    for kind in TYPES:
        found, number, made = convert(kind)
        assert found == arch and [t[:2] for t in made] == [t[:2] for t in plain]
        files[kind] = dict(file_type=number, types=[label for _, _, label, _ in made])
        for row, (_, _, label, data) in zip(rows, made):
            row["data"][label] = hashlib.sha256(data).hexdigest()[:16]
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    kinds = ",\n".join(f"  {json.dumps(kind)}: {json.dumps(file)}" for kind, file in files.items())
    (ctx.golden / "diffusion-types").mkdir(exist_ok=True)
    (ctx.golden / "diffusion-types" / f"{name}.json").write_text(
        f'{{"arch": {json.dumps(arch)},\n"tensors": [\n{lines}],\n"files": {{\n{kinds}}}}}\n')


def make(ctx) -> None:
    for name, tensors in FAMILIES.items():
        if ctx.wants(name):
            make_one(name, tensors, ctx)
