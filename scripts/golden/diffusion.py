"""Makes golden/diffusion/NAME.json: checkpoints of diffusion models and digests of the files that ComfyUI-GGUF makes of them.

Each checkpoint has the names that recognize a family, and tensors of every kind that the converter treats differently: matrices of
1024 elements and more, vectors, scalars, tensors of each float and integer type, names that stay F32, kernels of four and five
dimensions. A golden holds:

  tensors  in the order of the file: name, type, shape (outermost first). Values are those of `values`; the seed is the place in the list.
  arch     general.architecture
  type     bf16 or f16: the type of the file
  whole    sha256 of the file
  n_bytes  its length

`tools/convert.py` writes the files and, for tensors of five dimensions, `tools/fix_5d_tensors.py` adds these. Its reading of
`general.architecture` and `general.file_type` needs the element of an array with numpy 2; this is the one change. The template of
Qwen-Image, which convert.py lacks and the loader has, is added to its list.

NAME.ckpt is a pickle of one of the checkpoints. quantized-FORM.safetensors have codes with scales as ComfyUI saves them; quantized.txt has
the digests of the files that convert.py makes of the same values in f16, which torch computes: f16(f32(code) * scale). Those of NVFP4 and
MXFP8 are quantized and decoded by comfy-kitchen.

Needs torch, safetensors, tqdm, comfy-kitchen 0.2.40, gguf-py of the reference, and the input `comfyui-gguf`: the folder `tools` of city96/ComfyUI-GGUF@795e451.
"""

import hashlib
import importlib.util
import json
import struct
import subprocess
import sys

import numpy as np

from data import bytes_, normal

# Places in a file of safetensors: larger elements first, then by the order of its types.
ORDER = ["I64", "F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"]
TORCH = {"I64": "int64", "F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16", "F8_E4M3": "float8_e4m3fn",
         "F8_E5M2": "float8_e5m2", "I8": "int8", "U8": "uint8", "BOOL": "bool"}

MATRIX, LARGE, SMALL, VECTOR = [40, 64], [64, 72], [32, 32], [64]


def kinds(prefix, main):
    """Tensors of every kind; `main` is the type of most of them."""
    other = "F16" if main == "BF16" else "BF16"
    return [(f"{prefix}.one.weight", main, MATRIX), (f"{prefix}.two.weight", main, LARGE), (f"{prefix}.three.weight", main, [33, 32]),
            (f"{prefix}.small.weight", main, SMALL), (f"{prefix}.norm.weight", main, VECTOR), (f"{prefix}.single.weight", "F32", MATRIX),
            (f"{prefix}.single.norm", "F32", VECTOR), (f"{prefix}.single.small", "F32", SMALL), (f"{prefix}.other.weight", other, MATRIX),
            (f"{prefix}.other.norm", other, VECTOR), (f"{prefix}.other.small", other, SMALL), (f"{prefix}.double.weight", "F64", MATRIX),
            (f"{prefix}.e4m3.weight", "F8_E4M3", MATRIX), (f"{prefix}.e5m2.norm", "F8_E5M2", VECTOR), (f"{prefix}.scalar", "F32", []),
            (f"{prefix}.scalar16", main, []), (f"{prefix}.counter", "I64", []), (f"{prefix}.ids", "I64", [4, 300]), (f"{prefix}.mask", "BOOL", VECTOR),
            (f"{prefix}.bytes", "U8", VECTOR), (f"{prefix}.signed", "I8", VECTOR), (f"{prefix}.ones.weight", main, [1, 48, 32]),
            (f"{prefix}.trailing.weight", main, [48, 32, 1]), (f"{prefix}.conv.weight", main, [16, 8, 3, 3])]


def some(names, shape=MATRIX, dtype=None):
    return [(name, dtype, shape) for name in names.split()]


def kept(names, shape=LARGE):
    """Tensors that stay F32, in two types."""
    return [(name, dtype, shape) for name, dtype in zip(names.split(), [None, "F32"])]


UNET = [*some("input_blocks.0.0.weight out.2.weight", [16, 4, 3, 3]), *some("input_blocks.1.0.in_layers.2.weight", [32, 16, 3, 3]),
        *some("input_blocks.2.0.in_layers.2.weight", [32, 16, 3, 3], "F32"), *some("input_blocks.4.1.proj_in.weight", [32, 24, 1, 1]),
        *some("time_embed.0.weight", [16, 256]), *some("time_embed.2.weight", [30, 16]), *some("middle_block.1.bias", [768])]
FAMILIES = {
    "flux": some("double_blocks.0.img_attn.proj.weight"),
    "sd3": [*some("joint_blocks.0.x_block.attn.qkv.weight"), *some("pos_embed", [1, 36, 64])],
    "aura": [*some("double_layers.3.modX.1.weight"), *some("positional_encoding register_tokens", [1, 36, 64])],
    "hidream": [*some("caption_projection.0.linear.weight double_stream_blocks.0.block.ff_i.shared_experts.w3.weight"),
                *kept("double_stream_blocks.0.block.ff_i.gate.weight double_stream_blocks.1.block.ff_i.gate.weight"),
                *kept("img_emb.emb_pos", [1, 36, 64])],
    "cosmos": [*some("blocks.0.mlp.layer1.weight blocks.0.adaln_modulation_cross_attn.1.weight"),
               *kept("pos_embedder.dim_spatial_range pos_embedder.seq"), *some("blocks.0.self_attn._extra_state", [128], "U8"),
               *some("accum_steps", [], "F32")],
    "ltxv": [*some("adaln_single.emb.timestep_embedder.linear_2.weight caption_projection.linear_2.weight"),
             *kept("transformer_blocks.27.scale_shift_table scale_shift_table")],
    "hyvid": [*some("double_blocks.0.img_attn_proj.weight txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight"),
              *some("img_in.proj.weight", [16, 4, 1, 2, 2]), *some("img_in.proj.bias", [16])],
    "wan": [*some("blocks.0.self_attn.norm_q.weight", VECTOR), *some("text_embedding.2.weight"), *kept("head.modulation", [1, 2, 64]),
            *kept("blocks.0.modulation blocks.1.modulation", [1, 6, 256]), *some("patch_embedding.weight", [48, 16, 1, 2, 2]),
            *some("patch_embedding.bias", [48])],
    "sdxl": [*UNET, *some("label_emb.0.0.weight", [24, 32])],
    "sd1": [*UNET, *some("input_blocks.3.0.op.weight input_blocks.6.0.op.weight input_blocks.9.0.op.weight output_blocks.2.1.conv.weight "
                         "output_blocks.5.2.conv.weight output_blocks.8.2.conv.weight", [16, 16, 3, 3])],
    "lumina2": some("cap_embedder.1.weight context_refiner.0.attention.qkv.weight"),
    "qwen_image": some("time_text_embed.timestep_embedder.linear_2.weight transformer_blocks.0.attn.norm_added_q.weight "
                       "transformer_blocks.0.attn.norm_added_k.weight transformer_blocks.0.img_mlp.net.0.proj.weight"),
}
# In the layout of diffusers, which convert.py takes for a UNet.
DIFFUSERS_UNET = [*some("down_blocks.0.downsamplers.0.conv.weight conv_in.weight", [16, 16, 3, 3]), *some("add_embedding.linear_1.weight", [24, 32])]


def checkpoints():
    """Name, tensors and prefix of each checkpoint."""
    for arch, tensors in FAMILIES.items():
        for main in ("BF16", "F16"):
            rows = [(name, dtype or main, shape) for name, dtype, shape in tensors] + kinds("blocks.7", main)
            yield f"{arch}-{main.lower()}", rows, ""
    yield "sd1-f32", [(name, dtype or "F32", shape) for name, dtype, shape in FAMILIES["sd1"]], ""
    yield "sdxl-diffusers", [(name, dtype or "F16", shape) for name, dtype, shape in DIFFUSERS_UNET], ""
    flux = [(name, "BF16", shape) for name, _, shape in FAMILIES["flux"]] + kinds("blocks.7", "BF16")
    yield "flux-model", flux, "model."
    yield "cosmos-net", [(name, dtype or "BF16", shape) for name, dtype, shape in FAMILIES["cosmos"]] + kinds("blocks.7", "BF16"), "net."
    yield "sdxl-whole", [(name, dtype or "F16", shape) for name, dtype, shape in FAMILIES["sdxl"]], "model.diffusion_model."


# Other models of a whole pipeline.
OTHERS = [("first_stage_model.decoder.conv_in.weight", "F16", [4, 4, 3, 3]), ("cond_stage_model.transformer.weight", "F16", MATRIX),
          ("model_ema.decay", "F32", [])]


def values(seed, dtype, n):
    """Bytes of a tensor."""
    index = np.arange(n, dtype=np.uint64)
    raw = bytes_(seed, n)
    if dtype in ("F32", "F16", "F64"):
        return normal(seed, index).astype({"F32": "<f4", "F16": "<f2", "F64": "<f8"}[dtype]).tobytes()
    if dtype == "BF16":
        bits = normal(seed, index).view(np.uint32)
        return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype("<u2").tobytes()
    if dtype == "I64":
        return raw.astype("<i8").tobytes()
    # Neither NaN nor infinity.
    limit = {"F8_E4M3": 0x7E, "F8_E5M2": 0x7B, "BOOL": 1, "I8": 0x7F, "U8": 0xFF}[dtype]
    return np.where(raw & 0x7F > limit, 0, raw).astype(np.uint8).tobytes() if limit not in (1, 0xFF) else (raw & limit).tobytes()


def write_checkpoint(path, tensors):
    header, body = {}, b""
    for seed, (name, dtype, shape) in enumerate(tensors):
        data = values(seed, dtype, int(np.prod(shape, dtype=np.int64)))
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[len(body), len(body) + len(data)])
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def load(tools):
    spec = importlib.util.spec_from_file_location("comfyui_convert", tools / "convert.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class ModelQwenImage(module.ModelTemplate):
        arch = "qwen_image"
        keys_detect = [("time_text_embed.timestep_embedder.linear_2.weight", "transformer_blocks.0.attn.norm_added_q.weight",
                        "transformer_blocks.0.img_mlp.net.0.proj.weight")]

    module.arch_list.insert(0, ModelQwenImage)
    return module


def convert(tools, module, path, folder):
    """The file that the two programs make, and its architecture. The second looks for a file of the first in the current folder."""
    import os
    here = os.getcwd()
    os.chdir(folder)
    try:
        out, model = module.convert_file(str(path), str(folder / "out.gguf"), interact=False, overwrite=True)
        missing = folder / f"fix_5d_tensors_{model.arch}.safetensors"
        if missing.exists():
            script = (tools / "fix_5d_tensors.py").read_text()
            assert script.count("int(field.parts[field.data[-1]])") == 1
            script = script.replace("int(field.parts[field.data[-1]])", "int(field.parts[field.data[-1]][0])")
            (folder / "fix.py").write_text(script)
            subprocess.run([sys.executable, "fix.py", "--src", out, "--dst", "fixed.gguf", "--overwrite"], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
            missing.unlink()
            out = folder / "fixed.gguf"
        return (folder / out).read_bytes(), model.arch
    finally:
        os.chdir(here)


def make_one(ctx, module, tools, name, tensors, prefix):
    place = {dtype: i for i, dtype in enumerate(ORDER)}
    rows = [(prefix + tensor, dtype, shape) for tensor, dtype, shape in tensors] + (OTHERS if name.endswith("whole") else [])
    rows.sort(key=lambda row: (place[row[1]], row[0]))
    path = ctx.scratch / f"{name}.safetensors"
    write_checkpoint(path, rows)
    data, arch = convert(tools, module, path, ctx.scratch)
    dtypes = [dtype for tensor, dtype, _ in rows if prefix in tensor]
    kind = "bf16" if max(set(dtypes), key=dtypes.count) == "BF16" else "f16"
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    (ctx.golden / "diffusion" / f"{name}.json").write_text(
        f'{{"arch": "{arch}", "type": "{kind}", "whole": "{hashlib.sha256(data).hexdigest()}", "n_bytes": {len(data)},\n"tensors": [\n{lines}]}}\n')
    return path


def make_pickle(path, out):
    """The checkpoint under a key, as Lightning and DeepSpeed save it, next to other things."""
    import torch
    from safetensors.torch import load_file
    torch.save({"model": load_file(path), "ema": {}, "step": 7}, out)


def quantized():
    """Checkpoints with codes: name, tensors, and the values of these tensors."""
    import torch
    generator = torch.Generator().manual_seed(1)
    random = lambda *shape: torch.randn(*shape, generator=generator) * 0.02
    names = ["double_blocks.0.img_attn.proj", "double_blocks.0.img_mlp.0", "single_blocks.0.linear1"]

    def build(dtype, scale_of, scale_end, limit, marks):
        codes, plain = {}, {}
        for name in names:
            weight = random(24, 48)
            scale = scale_of(weight) / limit
            code = weight / scale
            code = code.round().clamp(-127, 127).to(dtype) if dtype == torch.int8 else code.to(dtype)
            codes |= {f"{name}.weight": code, f"{name}.{scale_end}": scale}
            codes |= {f"{name}.{end}": value for end, value in marks.items()}
            plain[f"{name}.weight"] = (code.float() * scale).half()
        for name in names[:1]:
            codes[f"{name}.bias"] = plain[f"{name}.bias"] = random(24).bfloat16()
        return codes, plain

    mark = lambda **entries: torch.tensor(list(json.dumps(entries).encode()), dtype=torch.uint8)
    whole, by_row = (lambda w: w.abs().max()), (lambda w: w.abs().amax(1, keepdim=True))
    e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
    first, plain = build(e4m3, whole, "scale_weight", 448, {"scale_input": torch.tensor(1.0)})
    yield "quantized-first", first | {"scaled_fp8": torch.zeros(2, dtype=e4m3)}, plain
    yield "quantized-e4m3", *build(e4m3, whole, "weight_scale", 448, {"comfy_quant": mark(format="float8_e4m3fn"), "input_scale": torch.tensor(2.0)})
    yield "quantized-e5m2", *build(e5m2, whole, "weight_scale", 57344, {"comfy_quant": mark(format="float8_e5m2")})
    yield "quantized-rows", *build(e4m3, by_row, "weight_scale", 448, {"comfy_quant": mark(format="float8_e4m3fn", full_precision_matrix_mult=True)})
    import comfy_kitchen
    from comfy_kitchen.backends.eager import quantization as eager

    def tiled(form):
        codes, plain = {}, {}
        for name in names:
            # More than one tile each way.
            weight = random(144, 160)
            if form == "nvfp4":
                scale = weight.abs().max() / (448 * 6)
                code, scales = eager.quantize_nvfp4(weight, scale)
                values = eager.dequantize_nvfp4(code, scale, scales, torch.float32)
                codes |= {f"{name}.weight_scale_2": scale.clone()}
            else:
                code, scales = eager.quantize_mxfp8(weight)
                values = eager.dequantize_mxfp8(code, scales, torch.float32)
                scales = scales.view(torch.uint8)
            codes |= {f"{name}.weight": code, f"{name}.weight_scale": scales, f"{name}.comfy_quant": mark(format=form)}
            plain |= {f"{name}.weight": values.half()}
        return codes, plain

    assert comfy_kitchen
    yield "quantized-nvfp4", *tiled("nvfp4")
    yield "quantized-mxfp8", *tiled("mxfp8")
    yield "quantized-int8", *build(torch.int8, whole, "weight_scale", 127, {"comfy_quant": mark(format="int8_tensorwise")})


def make_quantized(ctx, module, tools) -> None:
    from safetensors.torch import save_file
    lines = []
    for name, codes, plain in quantized():
        prefix = "model.diffusion_model."
        save_file({prefix + key: value.clone() for key, value in codes.items()}, ctx.golden / "diffusion" / f"{name}.safetensors")
        # In the order of the codes: names of one type are sorted.
        path = ctx.scratch / "plain.safetensors"
        save_file(plain, path)
        data, _ = convert(tools, module, path, ctx.scratch)
        names = [key for key in codes if key in plain]
        lines.append(f"{name}\t{hashlib.sha256(data).hexdigest()}\t{len(names)}\n")
    (ctx.golden / "diffusion" / "quantized.txt").write_text("".join(lines))


def make(ctx) -> None:
    from pathlib import Path
    tools = Path(ctx.inputs["comfyui-gguf"]).resolve()
    module = load(tools)
    (ctx.golden / "diffusion").mkdir(exist_ok=True)
    for name, tensors, prefix in checkpoints():
        if ctx.wants(name):
            path = make_one(ctx, module, tools, name, tensors, prefix)
            if name == "lumina2-bf16":
                make_pickle(path, ctx.golden / "diffusion" / f"{name}.ckpt")
    if ctx.wants("quantized"):
        make_quantized(ctx, module, tools)
