"""Makes golden/dialects/torchao-*: tensors of torchao in the safetensors that it writes, with what it decodes on a CPU.

torchao-int8: Int8Tensor, IntxUnpackedToInt8Tensor of 1 to 8 bits with and without zeros, Float8Tensor; torchao-int4: plain
and tile-packed Int4 and plain int32, which its own code makes on other devices only: there the formulas stand in numpy;
torchao-llama is a whole checkpoint of one layer.

torchao-mx: MXTensor of 4 and 8 bits and NVFP4Tensor, with scales in rows and in tiles, as torchao's own configs make them and
with every code and scale that is a number; torchao-nvfp4-llama is a whole checkpoint of one layer, whose file is that which
the reference makes of the same codes under ModelOpt's names.
"""

import json

import numpy as np
import torch

from fp4_values import E2M1, blocks, codes, e4m3, e8m0, exponents, nibbles, reference, spread, ue4m3
from weight_forms import Golden, is_linear, modelopt_nvfp4, small_llama


def config_of(kind: str) -> dict:
    return dict(quant_method="torchao", quant_type={"default": {"_type": kind, "_version": 2, "_data": {}}},
                modules_to_not_convert=None, include_input_output_embeddings=False)


def add(golden: Golden, metadata: dict, name: str, weight, config, act_pre_scale=None) -> None:
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import quantize_
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight.clone()
    holder = layer
    for part in reversed(name.split(".")):
        outer = torch.nn.Module()
        outer.add_module(part, holder)
        holder = outer
    quantize_(holder, config)
    tensors, meta = flatten_tensor_state_dict(holder.state_dict())
    golden.tensors |= tensors
    names = json.loads(metadata.get("tensor_names", "[]")) + json.loads(meta.pop("tensor_names"))
    metadata |= meta
    metadata["tensor_names"] = json.dumps(names)
    quantized = layer.weight
    codes, scales = quantized.qdata.float().numpy(), quantized.scale.float().numpy()
    zeros = getattr(quantized, "zero_point", None)
    zeros = np.zeros_like(scales) if zeros is None else zeros.float().numpy()
    spread = lambda values: np.repeat(values, codes.shape[1] // values.shape[1], axis=1)
    value = (codes - spread(zeros)) * spread(scales)
    own = quantized.dequantize()
    assert torch.equal(torch.from_numpy(value).to(own.dtype), own), name
    golden.value(f"{name}.weight", value)
    golden.library(f"{name}.weight", own)


def plain_tensor(golden: Golden, metadata: dict, name: str, tensor) -> None:
    golden.tensors[name] = tensor
    metadata[name] = json.dumps({"_type": "Tensor"})
    metadata["tensor_names"] = json.dumps(json.loads(metadata.get("tensor_names", "[]")) + [name])


def make_int8(ctx) -> None:
    from torchao.quantization import (Float8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig,
                                      Int8DynamicActivationIntxWeightConfig, Int8WeightOnlyConfig,
                                      IntxWeightOnlyConfig, PerAxis, PerGroup)
    from torchao.quantization.quant_primitives import MappingType
    golden, metadata = Golden(ctx, "torchao-int8", config_of("Int8WeightOnlyConfig")), {"format": "pt"}
    torch.manual_seed(20)
    normal = lambda *shape: torch.randn(shape) * 0.05
    weight = normal(12, 160).bfloat16()
    weight[3] = 0
    weight[4] = 0.25
    add(golden, metadata, "int8", weight, Int8WeightOnlyConfig(version=2))
    add(golden, metadata, "int8.f16", normal(12, 160).half(), Int8WeightOnlyConfig(version=2))
    add(golden, metadata, "dynamic", normal(12, 160), Int8DynamicActivationInt8WeightConfig(version=2))
    for bits in range(1, 9):
        intx = getattr(torch, f"int{bits}")
        add(golden, metadata, f"intx.{bits}", normal(6, 128).bfloat16(),
            IntxWeightOnlyConfig(weight_dtype=intx, granularity=PerGroup(32), version=2))
        add(golden, metadata, f"intx.asymmetric{bits}", normal(6, 128).half(),
            IntxWeightOnlyConfig(weight_dtype=intx, granularity=PerGroup(64), mapping_type=MappingType.ASYMMETRIC,
                                 version=2))
    add(golden, metadata, "intx.channel", normal(6, 96),
        IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0), version=2))
    add(golden, metadata, "intx.dynamic", normal(6, 96).bfloat16(),
        Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32), version=2))
    add(golden, metadata, "float8", normal(12, 160).bfloat16(), Float8WeightOnlyConfig())
    plain_tensor(golden, metadata, "plain.weight", normal(3, 5).bfloat16())
    plain_tensor(golden, metadata, "int8.bias", normal(12).bfloat16())
    golden.value("plain.weight", golden.tensors["plain.weight"])
    golden.value("int8.bias", golden.tensors["int8.bias"])
    golden.write(metadata=metadata)


def describe(metadata: dict, name: str, kind: str, data: dict, parts: list) -> None:
    metadata[name] = json.dumps({"_type": kind, "_data": data, "_tensor_data_names": parts})
    metadata["tensor_names"] = json.dumps(json.loads(metadata.get("tensor_names", "[]")) + [name])


def tile_packed(codes: np.ndarray) -> np.ndarray:
    """Int4TilePackedTo4dTensor of codes 0 to 15, (out, in), both padded: `_convert_weight_to_int4pack` of CUDA, whose
    result nobody but a GPU makes, from the layout of its kernel."""
    out, width = codes.shape
    packed = np.zeros((out // 8, width // 128, 32, 4), np.uint32)
    for tile in range(out // 8):
        for outer in range(width // 128):
            for lane in range(32):
                row = 8 * tile + lane // 4
                for word in range(4):
                    k0 = (outer * 8 + 2 * word) * 16 + lane % 4 * 2
                    low = [codes[row, k0 + step] for step in (0, 1, 8, 9)]
                    high = [codes[row, k0 + 16 + step] for step in (0, 1, 8, 9)]
                    values = low + high
                    # From the highest nibble to the lowest.
                    for index in (7, 5, 3, 1, 6, 4, 2, 0):
                        packed[tile, outer, lane, word] = packed[tile, outer, lane, word] << 4 | values[index]
    return packed.view(np.int32)


def make_int4(ctx) -> None:
    golden, metadata = Golden(ctx, "torchao-int4", config_of("Int4WeightOnlyConfig")), {"format": "pt"}
    rng = np.random.default_rng(21)
    half = lambda values, dtype: torch.from_numpy(np.asarray(values, np.float32)).to(dtype)
    spread = lambda values, group: np.repeat(values.float().numpy(), group, axis=1)

    def pieces(name, codes, scales, zeros, group, formula, dtype):
        scales, zeros = spread(scales, group)[:codes.shape[0], :codes.shape[1]], spread(zeros, group)[:codes.shape[0], :codes.shape[1]]
        golden.value(f"{name}.weight", formula(codes.astype(np.float32), scales, zeros))
        for piece, values in dict(codes=codes, scales=scales, zeros=zeros).items():
            golden.piece(f"{name}.weight", piece, np.asarray(values, np.float32))

    # Int4Tensor: two's complement nibbles, the even column low; scale and zero (in / g, out).
    for name, dtype in {"plain": torch.bfloat16, "plain.half": torch.float16}.items():
        codes, group = rng.integers(-8, 8, (16, 128)), 32
        scales, zeros = (half(rng.normal(size=(16, 4)) * 0.05, dtype) for _ in range(2))
        data = (codes[:, ::2] & 15 | (codes[:, 1::2] & 15) << 4).astype(np.uint8).view(np.int8)
        golden.tensors |= {f"{name}._weight_qdata": torch.from_numpy(data), f"{name}._weight_scale": scales.T.contiguous(),
                           f"{name}._weight_zero_point": zeros.T.contiguous()}
        describe(metadata, f"{name}.weight", "Int4Tensor", {"block_size": [1, group], "shape": [16, 128]},
                 ["qdata", "scale", "zero_point"])
        pieces(name, codes, scales, zeros, group, lambda q, s, z: q * s + z, dtype)

    # Int4TilePackedTo4dTensor, padded from (12, 192) to (16, 1024).
    codes, group = rng.integers(0, 16, (16, 1024)), 64
    scales, zeros = (half(rng.normal(size=(16, 16)) * 0.05, torch.bfloat16) for _ in range(2))
    both = torch.stack([scales.T, zeros.T], -1).contiguous()
    golden.tensors |= {"tiled._weight_qdata": torch.from_numpy(tile_packed(codes)), "tiled._weight_scale_and_zero": both}
    describe(metadata, "tiled.weight", "Int4TilePackedTo4dTensor", {"block_size": [1, group], "shape": [12, 192]},
             ["qdata", "scale_and_zero"])
    pieces("tiled", codes[:12, :192], scales, zeros, group, lambda q, s, z: (q - 8) * s + z, torch.bfloat16)

    # Int4PlainInt32Tensor: eight nibbles a word, low first; integer zeros (in / g, out).
    codes, group = rng.integers(0, 16, (16, 128)), 32
    scales = half(rng.normal(size=(16, 4)) * 0.05, torch.float16)
    zeros = torch.from_numpy(rng.integers(0, 16, (16, 4)).astype(np.int8))
    words = np.zeros((16, 16), np.uint32)
    for index in range(8):
        words |= codes[:, index::8].astype(np.uint32) << np.uint32(4 * index)
    golden.tensors |= {"int32._weight_qdata": torch.from_numpy(words.view(np.int32)),
                       "int32._weight_scale": scales.T.contiguous(), "int32._weight_zero_point": zeros.T.contiguous()}
    describe(metadata, "int32.weight", "Int4PlainInt32Tensor", {"block_size": [1, group], "shape": [16, 128]},
             ["qdata", "scale", "zero_point"])
    pieces("int32", codes, scales, zeros, group, lambda q, s, z: (q - z) * s, torch.float16)

    # act_pre_scale: activations are multiplied by it, so each column of the matrix is.
    codes, group = rng.integers(-8, 8, (4, 64)), 32
    scales, zeros = (half(rng.normal(size=(4, 2)) * 0.05, torch.bfloat16) for _ in range(2))
    factors = half(rng.uniform(0.5, 2, 64), torch.bfloat16)
    data = (codes[:, ::2] & 15 | (codes[:, 1::2] & 15) << 4).astype(np.uint8).view(np.int8)
    golden.tensors |= {"scaled._weight_qdata": torch.from_numpy(data), "scaled._weight_scale": scales.T.contiguous(),
                       "scaled._weight_zero_point": zeros.T.contiguous(), "scaled._weight_act_pre_scale": factors}
    describe(metadata, "scaled.weight", "Int4Tensor", {"block_size": [1, group], "shape": [4, 64]},
             ["qdata", "scale", "zero_point", "act_pre_scale"])
    value = (codes.astype(np.float32) * spread(scales, group) + spread(zeros, group)) * factors.float().numpy()
    golden.value("scaled.weight", value)
    golden.write(metadata=metadata)


def make_llama(ctx) -> None:
    from torchao.quantization import Int8WeightOnlyConfig
    config, tensors = small_llama(ctx)
    golden, metadata = Golden(ctx, "torchao-llama", config_of("Int8WeightOnlyConfig"), config), {"format": "pt"}
    plain = {}
    for name, tensor in tensors.items():
        if is_linear(name):
            add(golden, metadata, name.removesuffix(".weight"), tensor, Int8WeightOnlyConfig(version=2))
            plain[name] = golden.values[name]
        else:
            plain_tensor(golden, metadata, name, tensor)
            plain[name] = tensor.float().numpy()
    golden.reference_file(plain, config)
    golden.write(metadata=metadata)


def flatten(golden: Golden, metadata: dict, name: str, tensor) -> None:
    """`tensor` as torchao writes it into safetensors."""
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    tensors, meta = flatten_tensor_state_dict({name: tensor})
    golden.tensors |= tensors
    names = json.loads(metadata.get("tensor_names", "[]")) + json.loads(meta.pop("tensor_names"))
    metadata |= meta
    metadata["tensor_names"] = json.dumps(names)


def in_rows(tensor) -> tuple:
    """Codes and scales of an MXTensor or NVFP4Tensor, the scales in rows."""
    from torchao.prototype.mx_formats.utils import from_blocked
    code, scale = tensor.qdata, tensor.scale
    if tensor.is_swizzled_scales:
        n_groups = tensor.shape[-1] // tensor.block_size
        scale = from_blocked(scale.view(torch.uint8).flatten(), tensor.numel() // tensor.shape[-1], n_groups).view(scale.dtype)
        scale = scale.reshape(*tensor.shape[:-1], n_groups)
    return code, scale.contiguous()


def add_floats(golden: Golden, metadata: dict, name: str, tensor) -> None:
    """An MXTensor or NVFP4Tensor: the values by the formula and by torchao, and blocks of ggml."""
    flatten(golden, metadata, name, tensor)
    code, scale = in_rows(tensor)
    if type(tensor).__name__ == "NVFP4Tensor":
        factor = np.float32(1) if tensor.per_tensor_scale is None else tensor.per_tensor_scale.float().numpy()
        value = E2M1[nibbles(code)] * spread((e4m3(scale) * factor).astype(np.float32), 16)
    elif code.dtype == torch.uint8:
        value = E2M1[nibbles(code)] * spread(e8m0(scale), 32)
    else:
        value = code.float().numpy() * spread(e8m0(scale), 32)
    golden.value(name, value)
    for dtype in (torch.float32, torch.bfloat16):
        own = tensor.dequantize(dtype)
        assert torch.equal(torch.from_numpy(value).to(dtype), own), (name, dtype)
        golden.library(name, own)
    if code.dtype == torch.uint8:
        code, scale = code.flatten(0, -2), scale.view(torch.uint8).flatten(0, -2)
        if type(tensor).__name__ == "MXTensor":
            blocks(golden, name, "mxfp4", reference().repack_mxfp4_blocks(code, scale))
        elif value.shape[-1] % 64 == 0:
            blocks(golden, name, "nvfp4", reference()._nvfp4_pack(code, scale)[0])


def of_config(weight, config):
    """The weight of a layer that a config of torchao quantizes."""
    from torchao.quantization import quantize_
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight.clone()
    quantize_(layer, config)
    return layer.weight.data


def make_mx(ctx) -> None:
    from torchao.prototype.mx_formats.inference_workflow import MXDynamicActivationMXWeightConfig, NVFP4WeightOnlyConfig
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.quantization.quantize_.common.kernel_preference import KernelPreference
    golden, metadata = Golden(ctx, "torchao-mx", config_of("MXDynamicActivationMXWeightConfig")), {"format": "pt"}
    torch.manual_seed(24)
    normal = lambda *shape: (torch.randn(shape) * 0.05).bfloat16()
    fp4, fp8, fp8_wide = torch.float4_e2m1fn_x2, torch.float8_e4m3fn, torch.float8_e5m2
    # As its configs make them: tiles, of which the last are not full.
    for name, kind, shape in (("mxfp8", fp8, (12, 160)), ("mxfp8.wide", fp8_wide, (12, 96)), ("mxfp8.tiles", fp8, (130, 160)),
                              ("mxfp4", fp4, (12, 160)), ("mxfp4.tiles", fp4, (130, 160))):
        weight = normal(*shape)
        weight[3], weight[4], weight[5, :32] = 0, 0.25, -0.0
        config = MXDynamicActivationMXWeightConfig(activation_dtype=kind, weight_dtype=kind,
                                                   kernel_preference=KernelPreference.EMULATED)
        add_floats(golden, metadata, f"{name}.weight", of_config(weight, config))
    for name, shape, dynamic in (("nvfp4", (16, 192), True), ("nvfp4.tiles", (144, 80), True), ("nvfp4.alone", (16, 64), False)):
        config = NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=dynamic)
        add_floats(golden, metadata, f"{name}.weight", of_config(normal(*shape), config))

    # Scales in rows, stacks, and every code and every scale that is a number.
    def mx(code, scale, kind, tiles):
        from torchao.prototype.mx_formats.utils import to_blocked
        scale = scale.view(torch.float8_e8m0fnu)
        if tiles:
            n_rows, n_groups = scale.flatten(0, -2).shape
            shape = *scale.shape[:-2], -(-scale.shape[-2] // 128) * 32, -(-n_groups // 4) * 16
            scale = to_blocked(scale.view(torch.uint8).flatten(0, -2)).view(torch.float8_e8m0fnu).view(shape)
        return MXTensor(code, scale, kind, 32, torch.bfloat16, KernelPreference.EMULATED, None, tiles)

    finite = lambda shape, largest: torch.tensor([code for code in range(256) if code & 127 <= largest] * 64,
                                                 dtype=torch.uint8)[:int(np.prod(shape))].reshape(shape)
    for tiles in (False, True):
        end = ".tiles" if tiles else ""
        add_floats(golden, metadata, f"all.mxfp4{end}.weight", mx(codes(16, 48), exponents(16, 3), fp4, tiles))
        add_floats(golden, metadata, f"all.mxfp8{end}.weight",
                   mx(finite((16, 96), 0x7e).view(fp8), exponents(16, 3).clamp(max=244), fp8, tiles))
        add_floats(golden, metadata, f"all.wide{end}.weight",
                   mx(finite((16, 96), 0x7b).view(fp8_wide), exponents(16, 3).clamp(max=236), fp8_wide, tiles))
    add_floats(golden, metadata, "rows.nvfp4.weight",
               NVFP4Tensor(codes(16, 64), ue4m3(16, 8), 16, torch.bfloat16, torch.tensor(0.0123)))
    add_floats(golden, metadata, "stack.mxfp8", MXTensor.to_mx(normal(2, 128, 64), fp8, 32, is_swizzled_scales=True,
                                                              kernel_preference=KernelPreference.EMULATED))
    factors = torch.tensor([0.5, 0.003, 7]).view(3, 1, 1)
    add_floats(golden, metadata, "stack.nvfp4", NVFP4Tensor(codes(3, 8, 32), ue4m3(3, 8, 4), 16, torch.bfloat16, factors))
    plain_tensor(golden, metadata, "plain.weight", normal(3, 5))
    golden.value("plain.weight", golden.tensors["plain.weight"])
    golden.write(metadata=metadata)


def make_nvfp4_llama(ctx) -> None:
    from torchao.prototype.mx_formats.inference_workflow import NVFP4WeightOnlyConfig
    config, tensors = small_llama(ctx)
    golden, metadata = Golden(ctx, "torchao-nvfp4-llama", config_of("NVFP4WeightOnlyConfig"), config), {"format": "pt"}
    twin = {}
    for name, tensor in tensors.items():
        if not is_linear(name):
            plain_tensor(golden, metadata, name, tensor)
            twin[name] = tensor
            continue
        weight = of_config(tensor, NVFP4WeightOnlyConfig())
        add_floats(golden, metadata, name, weight)
        if tensor.shape[1] % 64:
            # No whole blocks, which the reference does not read.
            twin[name] = torch.from_numpy(golden.values[name])
            continue
        code, scale = in_rows(weight)
        module = name.removesuffix(".weight")
        twin |= {name: code, f"{module}.weight_scale": scale, f"{module}.weight_scale_2": weight.per_tensor_scale}
    golden.reference_twin(twin, config | dict(quantization_config=modelopt_nvfp4()))
    golden.write(metadata=metadata)


MAKERS = {"torchao-int8": make_int8, "torchao-int4": make_int4, "torchao-llama": make_llama, "torchao-mx": make_mx,
          "torchao-nvfp4-llama": make_nvfp4_llama}


def make(ctx) -> None:
    for name, make_one in MAKERS.items():
        if ctx.wants(name):
            make_one(ctx)
