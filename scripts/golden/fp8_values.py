"""Makes golden/dialects/fp8-*: FP8 as libraries write it that the reference does not read, with the values.

Where the library runs on a CPU it quantizes and decodes: compressed-tensors, quanto, torchao. Elsewhere codes and scales are
drawn and the value is the published formula in torch: `weight.float() * scale.float()`, with the scale spread over what it
is for. Every code that is a number occurs; scales differ by powers of ten.
"""

import torch

from weight_forms import Golden

E4M3, E5M2, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
FINITE = {E4M3: 0x7e, E5M2: 0x7b}


def codes(*shape: int, dtype=E4M3) -> torch.Tensor:
    """All codes that are numbers, then drawn ones."""
    n = int(torch.Size(shape).numel())
    bits = torch.randint(0, FINITE[dtype] + 1, (n,), dtype=torch.uint8) | torch.randint(0, 2, (n,), dtype=torch.uint8) * 128
    every = [code for code in range(256) if code & 127 <= FINITE[dtype]][:n]
    bits[:len(every)] = torch.tensor(every, dtype=torch.uint8)
    return bits.view(dtype).reshape(shape)


def scales(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return (10 ** (torch.rand(shape) * 6 - 5) * torch.where(torch.rand(shape) < 0.1, -1.0, 1.0)).to(dtype)


def spread(scale: torch.Tensor, shape, block) -> torch.Tensor:
    """Scales of blocks, one for each code; a last block is cut."""
    for dim, size in zip((-2, -1), block):
        scale = scale.repeat_interleave(size, dim)
    return scale[..., :shape[-2], :shape[-1]]


def add(golden: Golden, name: str, code: torch.Tensor, scale: torch.Tensor, spread_scale: torch.Tensor, *, beside: str,
        stored=None) -> None:
    """A tensor of codes, its scales under the name `beside`, and the value."""
    golden.tensors |= {name: code if stored is None else stored, beside: scale}
    golden.value(name, code.float() * spread_scale.float())


def linear(golden: Golden, module: str, code, scale, spread_scale, ending: str = "weight_scale", stored=None) -> None:
    add(golden, f"{module}.weight", code, scale, spread_scale, beside=f"{module}.{ending}", stored=stored)


def plain(golden: Golden) -> None:
    golden.tensors |= {"lm_head.weight": torch.randn(8, 16, dtype=torch.bfloat16), "norm.weight": torch.ones(16)}


def static(ctx) -> None:
    """AutoFP8 0.1: one scale for a matrix, of no dimension or of one; Quark 0.13 in its own keys under the same name."""
    golden = Golden(ctx, "fp8-static", dict(quant_method="fp8", activation_scheme="static", ignored_layers=["lm_head"]))
    for i, scale in enumerate((scales(), scales(1))):
        linear(golden, f"layers.{i}.q_proj", code := codes(24, 40), scale, scale)
        golden.tensors |= {f"layers.{i}.q_proj.input_scale": scales(), f"layers.{i}.attn.k_scale": scales(1)}
    linear(golden, "layers.2.q_proj", codes(24, 40, dtype=E5M2), scale := scales(24), scale[:, None])
    plain(golden)
    golden.write()


def blocks(ctx) -> None:
    """Fine-grained blocks that the reference does not read: exponents as bytes, DeepSeek-V4's names, the ranks of
    MiMo-V2.5 (`_tp_aware_qkv_dequant`), experts in one tensor."""
    golden = Golden(ctx, "fp8-blocks", dict(quant_method="fp8", weight_block_size=[32, 32], scale_fmt="ue8m0"))
    exponents = lambda *shape: torch.randint(100, 140, shape, dtype=torch.uint8)
    code, scale = codes(40, 72), exponents(2, 3)
    linear(golden, "layers.0.q_proj", code, scale, spread(scale.view(E8M0).float(), code.shape, (32, 32)), "weight_scale_inv")
    scale = exponents(2, 3)
    linear(golden, "layers.0.ffn.w1", code, scale.view(E8M0), spread(scale.view(E8M0).float(), code.shape, (32, 32)), "scale")
    # Four ranks of 80 rows, three rows of blocks each.
    code, scale = codes(320, 40), scales(12, 2)
    by_rank = [spread(scale[3 * i:3 * i + 3], (80, 40), (32, 32)) for i in range(4)]
    linear(golden, "layers.0.self_attn.qkv_proj", code, scale, torch.cat(by_rank), "weight_scale_inv")
    code, scale = codes(3, 40, 72), scales(3, 2, 3, dtype=torch.bfloat16)
    add(golden, "layers.0.experts.gate_up_proj", code, scale, spread(scale, code.shape, (32, 32)),
        beside="layers.0.experts.gate_up_proj_scale_inv")
    plain(golden)
    golden.write()


def fbgemm(ctx) -> None:
    """FBGEMM as transformers 5.23 has it (integrations/fbgemm_fp8.py): a scale for each row; of the experts of Llama 4
    one for each column, of the second matrix under a shape of its own."""
    golden = Golden(ctx, "fp8-fbgemm", dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0,
        modules_to_not_convert=["lm_head"]))
    linear(golden, "layers.0.q_proj", codes(24, 40), scale := scales(24, 1), scale)
    golden.tensors |= {"layers.0.q_proj.bias": torch.randn(24), "layers.0.q_proj.input_scale_ub": torch.tensor([1200.0])}
    experts = "layers.1.feed_forward.experts"
    add(golden, f"{experts}.gate_up_proj", codes(2, 16, 24), scale := scales(2, 1, 24), scale,
        beside=f"{experts}.gate_up_proj_scale")
    # (E, inner, hidden): the scales of hidden units stand in rows.
    add(golden, f"{experts}.down_proj", codes(2, 16, 16), scale := scales(2, 16, 1), scale.transpose(1, 2),
        beside=f"{experts}.down_proj_scale")
    add(golden, "layers.2.feed_forward.experts.down_proj", codes(2, 12, 16), scale := scales(2, 16, 1), scale.transpose(1, 2),
        beside="layers.2.feed_forward.experts.down_proj_scale")
    plain(golden)
    golden.write()


def modelopt(ctx) -> None:
    """ModelOpt 0.47 (export/quant_utils.py): blocks with dimensions of their own, bytes without a type, experts in one
    tensor with a scale each, one for each row and one for each column."""
    golden = Golden(ctx, "fp8-modelopt", dict(quant_method="modelopt", quant_algo="FP8_PB_WO"))
    code, scale = codes(136, 160), scales(2, 1, 2, 1)
    linear(golden, "layers.0.q_proj", code, scale, spread(scale[:, 0, :, 0], code.shape, (128, 128)))
    linear(golden, "layers.0.k_proj", code := codes(24, 40), scale := scales(), scale, stored=code.view(torch.uint8))
    linear(golden, "layers.0.v_proj", code := codes(24, 40), scale := scales(24), scale[:, None],
           stored=code.view(torch.int8))
    for i, (scale, wide) in enumerate(((one := scales(3), one[:, None, None]), (rows := scales(3, 16), rows[..., None]),
                                       (columns := scales(3, 24), columns[:, None]))):
        add(golden, f"layers.{i}.experts.gate_up_proj", codes(3, 16, 24), scale, wide,
            beside=f"layers.{i}.experts.gate_up_proj_weight_scale")
        golden.tensors[f"layers.{i}.experts.gate_up_proj_input_scale"] = scales()
    plain(golden)
    golden.write()


def quark(ctx) -> None:
    golden = Golden(ctx, "fp8-quark", dict(quant_method="quark", global_quant_config=dict(weight=dict(
        dtype="fp8_e4m3", qscheme="per_channel", ch_axis=0))))
    linear(golden, "layers.0.q_proj", codes(24, 40), scale := scales(), scale)
    linear(golden, "layers.0.k_proj", codes(24, 40), scale := scales(24), scale[:, None])
    golden.tensors |= {f"layers.0.{x}_proj.{x}_scale": scales() for x in "kv"} | {"layers.0.q_proj.input_scale": scales()}
    plain(golden)
    golden.write()


def compressed(ctx) -> None:
    """Strategies that the reference does not read, by compressed-tensors itself."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    for name, form, arguments, shape in (
            ("tensor", "float-quantized", dict(strategy="tensor"), lambda out, width: (1,)),
            ("group", "naive-quantized", dict(strategy="group", group_size=16), lambda out, width: (out, width // 16)),
            ("mx", "mxfp8-quantized", dict(strategy="group", group_size=32, scale_dtype=torch.uint8),
             lambda out, width: (out, width // 32))):
        weights = QuantizationArgs(num_bits=8, type="float", symmetric=True, **arguments)
        scheme = QuantizationScheme(targets=["Linear"], weights=weights)
        group = dict(targets=["Linear"], weights=weights.model_dump(mode="json"))
        golden = Golden(ctx, f"fp8-compressed-{name}", dict(quant_method="compressed-tensors", format=form,
            ignore=["lm_head"], config_groups=dict(group_0=group)))
        compressor = BaseCompressor.get_value_from_registry(form)
        for i in range(2):
            weight = torch.randn(24, 64)
            scale = 2.0 ** torch.randint(-12, -4, shape(24, 64)).float() if name == "mx" else scales(*shape(24, 64)).abs()
            packed = compressor.compress(dict(weight=weight, weight_scale=scale), scheme)
            golden.tensors |= {f"layers.{i}.q_proj.{key}": value for key, value in packed.items()}
            golden.value(f"layers.{i}.q_proj.weight", compressor.decompress(packed, scheme)["weight"])
        plain(golden)
        golden.write()


def layers(seed: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(40, 24, bias=False), torch.nn.Linear(24, 16))


def quanto(ctx) -> None:
    from optimum.quanto import freeze, qfloat8_e4m3fn, qfloat8_e5m2, quantize
    for name, qtype in (("e4m3", qfloat8_e4m3fn), ("e5m2", qfloat8_e5m2)):
        golden = Golden(ctx, f"fp8-quanto-{name}", dict(quant_method="quanto", weights="float8"))
        for dtype in (torch.float32, torch.bfloat16):
            model = layers(3).to(dtype)
            quantize(model, weights=qtype)
            freeze(model)
            at = str(dtype).removeprefix("torch.")
            golden.tensors |= {f"{at}.{key}": value for key, value in model.state_dict().items()}
            for i, layer in enumerate(model):
                library = layer.weight.dequantize()
                golden.value(f"{at}.{i}.weight", layer.weight._data.float() * layer.weight._scale.float())
                golden.library(f"{at}.{i}.weight", library)
        golden.write()


def torchao(ctx) -> None:
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Float8WeightOnlyConfig, PerRow, PerTensor, quantize_
    from safetensors.torch import save_file
    golden = Golden(ctx, "fp8-torchao", dict(quant_method="torchao", quant_type=dict(default=dict(
        _type="Float8WeightOnlyConfig", _version=2, _data={}))))
    state = {}
    for name, granularity in (("row", PerRow()), ("tensor", PerTensor())):
        model = layers(4).to(torch.bfloat16)
        quantize_(model, Float8WeightOnlyConfig(granularity=granularity))
        state |= {f"{name}.{key}": value for key, value in model.state_dict().items()}
        for i, layer in enumerate(model):
            weight = layer.weight
            golden.value(f"{name}.{i}.weight", weight.qdata.float() * weight.scale.float())
            golden.library(f"{name}.{i}.weight", weight.dequantize())
    flat, metadata = flatten_tensor_state_dict(state)
    golden.write(save=lambda path: save_file({name: value.contiguous() for name, value in flat.items()}, path, metadata=metadata))


def make(ctx) -> None:
    for maker in (static, blocks, fbgemm, modelopt, quark, compressed, quanto, torchao):
        torch.manual_seed(14)
        maker(ctx)
