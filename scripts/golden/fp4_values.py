"""Makes golden/dialects/fp4-*: floats of 4 and 6 bits with scales of groups as libraries write them, with the values.

Where the library runs on a CPU it quantizes and decodes: compressed-tensors, mlx, torchao, transformers. Elsewhere codes and
scales are drawn. The value is the formula in numpy, of tables that are written here, and the library's own output stands
beside it. Every code and every scale that is a number occurs; `blocks` are those of the reference's `repack_mxfp4_blocks`
and `_nvfp4_pack`.
"""

import numpy as np
import torch

from weight_forms import Golden

F = np.float32
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], F)
E2M3 = np.array([m / 8 if e == 0 else (1 + m / 8) * 2 ** (e - 1) for e in range(4) for m in range(8)], F)
E2M3 = np.concatenate([E2M3, -E2M3])


def e4m3(scale: torch.Tensor) -> np.ndarray:
    return scale.view(torch.float8_e4m3fn).float().numpy()


def e8m0(scale: torch.Tensor) -> np.ndarray:
    return np.ldexp(F(1), scale.view(torch.uint8).numpy().astype(np.int32) - 127).astype(F)


def nibbles(codes: torch.Tensor) -> np.ndarray:
    """Elements of bytes, the even one in the low half."""
    bits = codes.contiguous().view(torch.uint8).numpy()
    return np.stack([bits & 15, bits >> 4], -1).reshape(*bits.shape[:-1], -1)


def spread(scale: np.ndarray, group: int) -> np.ndarray:
    return np.repeat(scale, group, -1)


def codes(*shape: int) -> torch.Tensor:
    """Every byte of two codes, then drawn ones."""
    n = int(np.prod(shape))
    return torch.cat([torch.arange(256)[:n], torch.randint(0, 256, (max(n - 256, 0),))]).to(torch.uint8).reshape(shape)


def ue4m3(*shape: int) -> torch.Tensor:
    """Every scale without a sign, then drawn ones."""
    n = int(np.prod(shape))
    bits = torch.cat([torch.arange(127)[:n], torch.randint(0, 127, (max(n - 127, 0),))])
    return bits.to(torch.uint8).reshape(shape).view(torch.float8_e4m3fn)


def exponents(*shape: int) -> torch.Tensor:
    """Exponents around one, the smallest ones, and one of which no product is beyond f32."""
    bits = torch.randint(100, 140, shape, dtype=torch.uint8)
    bits.view(-1)[:4] = torch.tensor([0, 1, 2, 251], dtype=torch.uint8)
    return bits


def add(golden: Golden, module: str, parts: dict, values: np.ndarray, name: str = "", library=None) -> None:
    golden.tensors |= {module + key: part for key, part in parts.items()}
    golden.value(name or f"{module}.weight", np.ascontiguousarray(values))
    if library is not None:
        golden.library(name or f"{module}.weight", library)


def blocks(golden: Golden, name: str, dtype: str, raw) -> None:
    """What the reference's function makes of codes and scales."""
    from lib import sha256
    raw = raw if isinstance(raw, np.ndarray) else raw.numpy()
    golden.lines.append(f"{name} blocks {dtype} {sha256(np.ascontiguousarray(raw).tobytes())}")


def plain(golden: Golden) -> None:
    golden.tensors |= {"lm_head.weight": torch.randn(8, 16, dtype=torch.bfloat16), "norm.weight": torch.ones(16)}


def reference():
    from conversion.base import ModelBase
    return ModelBase


def scheme(bits: int, **arguments):
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    weights = QuantizationArgs(num_bits=bits, type="float", symmetric=True, **arguments)
    return QuantizationScheme(targets=["Linear"], weights=weights), dict(targets=["Linear"],
        weights=weights.model_dump(mode="json"))


def compressed(ctx) -> None:
    from compressed_tensors.compressors import BaseCompressor
    # Rows of 96 elements are no whole block of ggml's NVFP4.
    for form, bits, arguments in (
            ("nvfp4-pack-quantized", 4, dict(strategy="tensor_group", group_size=16)),
            ("mxfp4-pack-quantized", 4, dict(strategy="group", group_size=32, scale_dtype=torch.uint8)),
            ("mxfp6-pack-quantized", 6, dict(strategy="group", group_size=32, scale_dtype=torch.uint8))):
        how, group = scheme(bits, **arguments)
        golden = Golden(ctx, "fp4-compressed-" + form.split("-")[0], dict(quant_method="compressed-tensors", format=form,
            ignore=["lm_head"], config_groups=dict(group_0=group)))
        compressor = BaseCompressor.get_value_from_registry(form)
        size = arguments["group_size"]
        for i, columns in enumerate((128, 96, 64)):
            weight = torch.randn(16, columns)
            state = dict(weight=weight)
            if size == 16:
                most = weight.reshape(16, -1, size).abs().amax(-1)
                state["weight_global_scale"] = 448 * 6 / most.max().reshape(1)
                state["weight_scale"] = most / 6 * state["weight_global_scale"]
            else:
                state["weight_scale"] = 2.0 ** torch.randint(-6, 3, (16, columns // size)).float()
            packed = compressor.compress(state, how)
            if size == 16 and i == 0:
                packed["weight_scale"], packed["weight_packed"] = ue4m3(16, columns // size), codes(16, columns // 2)
            if size == 32 and bits == 4 and i == 0:
                packed["weight_packed"] = codes(16, columns // 2)
            decoded = compressor.decompress(packed, how)["weight"]
            if size == 16:
                scale_2 = (F(1) / packed["weight_global_scale"].numpy()).astype(F)
                values = E2M1[nibbles(packed["weight_packed"])] * spread(e4m3(packed["weight_scale"]) * scale_2, 16)
            elif bits == 4:
                values = E2M1[nibbles(packed["weight_packed"])] * spread(e8m0(packed["weight_scale"]), 32)
            else:
                stream = np.unpackbits(packed["weight_packed"].numpy(), axis=-1, bitorder="little").reshape(16, -1, 6)
                code = (stream * (1 << np.arange(6))).sum(-1)
                values = E2M3[code] * spread(e8m0(packed["weight_scale"]), 32)
            parts = {"." + key: value for key, value in packed.items()}
            # The library divides by the scale where the formula multiplies by its reciprocal: of one rounding
            # to bf16 nothing of that is left.
            if size == 16:
                decoded = decoded.to(torch.bfloat16)
                assert torch.equal(decoded, torch.from_numpy(values).to(torch.bfloat16)), "another rounding"
            add(golden, f"layers.{i}.q_proj", parts, values, library=decoded)
            name = f"layers.{i}.q_proj.weight"
            if bits == 4 and size == 32:
                blocks(golden, name, "mxfp4", reference().repack_mxfp4_blocks(packed["weight_packed"], packed["weight_scale"]))
            elif size == 16 and columns % 64 == 0:
                blocks(golden, name, "nvfp4", reference()._nvfp4_pack(packed["weight_packed"], packed["weight_scale"])[0])
        golden.tensors["layers.0.q_proj.input_global_scale"] = torch.tensor([3.0])
        plain(golden)
        golden.write()


def modelopt(ctx) -> None:
    """ModelOpt 0.47 (export/quant_utils.py): factors of columns that are not folded, and rows that are no whole block."""
    golden = Golden(ctx, "fp4-modelopt", dict(quant_method="modelopt", quant_algo="NVFP4_AWQ"))
    for i, columns in enumerate((64, 48)):
        code, scale = codes(24, columns // 2), ue4m3(24, columns // 16)
        scale_2, pre = torch.tensor(0.0123), (torch.rand(columns) + 0.5).to(torch.bfloat16 if i else torch.float16)
        values = E2M1[nibbles(code)] * spread(e4m3(scale) * scale_2.numpy(), 16)
        parts = {".weight": code, ".weight_scale": scale, ".weight_scale_2": scale_2, ".input_scale": torch.tensor(0.5)}
        add(golden, f"layers.{i}.q_proj", parts | {".pre_quant_scale": pre}, values * pre.float().numpy())
        # Without a scale of the tensor, as of an export that folded it.
        del parts[".weight_scale_2"]
        add(golden, f"layers.{i}.k_proj", parts, E2M1[nibbles(code)] * spread(e4m3(scale), 16))
    plain(golden)
    golden.write()


def experts(ctx) -> None:
    """DeepSeek-V4 and MiMo, experts of 4 bits beside matrices of 8; Quark 0.13."""
    for name, config, stored, ending, scales in (
            ("deepseek", dict(quant_method="fp8", weight_block_size=[128, 128], expert_dtype="fp4", scale_fmt="ue8m0"),
             torch.int8, ".scale", torch.float8_e8m0fnu),
            ("mimo", dict(quant_method="fp8", store_dtype="mxfp4", mxfp4_block_size=32, weight_block_size=[128, 128]),
             torch.uint8, ".weight_scale", torch.uint8),
            ("quark", dict(quant_method="quark", global_quant_config=dict(weight=dict(dtype="fp4", qscheme="per_group",
                group_size=32, scale_format="e8m0"))), torch.uint8, ".weight_scale", torch.uint8)):
        golden = Golden(ctx, f"fp4-{name}", config)
        for i, columns in enumerate((96, 64)):
            code, scale = codes(16, columns // 2), exponents(16, columns // 32)
            module = f"layers.0.ffn.experts.{i}.w1"
            values = E2M1[nibbles(code)] * spread(e8m0(scale), 32)
            add(golden, module, {".weight": code.view(stored), ending: scale.view(scales)}, values)
            blocks(golden, f"{module}.weight", "mxfp4", reference().repack_mxfp4_blocks(code, scale))
        if name == "deepseek":
            code, scale = torch.randn(16, 64).to(torch.float8_e4m3fn), exponents(4, 1)[3:].view(torch.float8_e8m0fnu)
            add(golden, "layers.0.attn.wq_a", {".weight": code, ".scale": scale}, code.float().numpy() * e8m0(scale))
        plain(golden)
        golden.write()


def gpt_oss(ctx) -> None:
    """transformers 5.23 (`convert_moe_packed_tensors`), which transposes its result."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    golden = Golden(ctx, "fp4-gpt-oss", dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"]))
    for name, rows, groups in (("down_proj", 16, 3), ("gate_up_proj", 24, 2)):
        code, scale = codes(2, rows, groups, 16), exponents(2, rows, groups)
        # In its bf16 the smallest exponents are not exact.
        scale.view(-1)[:4] = 110
        library = convert_moe_packed_tensors(code, scale, dtype=torch.bfloat16).transpose(1, 2)
        module = f"model.layers.0.mlp.experts.{name}"
        values = E2M1[nibbles(code.flatten(-2))] * spread(e8m0(scale), 32)
        add(golden, module, {"_blocks": code, "_scales": scale}, values, f"{module}_blocks", library)
        raw = np.concatenate([reference().repack_mxfp4_blocks(code[i].flatten(-2), scale[i]) for i in range(2)])
        blocks(golden, f"{module}_blocks", "mxfp4", raw)
    plain(golden)
    golden.write()


def make(ctx) -> None:
    for maker in (compressed, modelopt, experts, gpt_oss):
        torch.manual_seed(15)
        maker(ctx)
