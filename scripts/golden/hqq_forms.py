"""Makes golden/dialects/hqq-*: weights as hqq stores them, with what it decodes on a CPU.

hqq-forms has 8, 4, 3, 2, 1.58 and 1 bits along both axes, packed bytes seen as floats, rounded zeros, a whole row as a
group, three compute types; hqq-llama is a whole checkpoint of one layer. hqq rounds twice, so beside its own output there
are the pieces that it is made of, for each element.
"""

import numpy as np
import torch

from weight_forms import Golden, is_linear, small_llama


def config_of(**weights) -> dict:
    return dict(quant_method="hqq", quant_config=dict(weight_quant_params=dict(nbits=4, group_size=64, axis=1,
                channel_wise=True, optimize=True, round_zero=False, view_as_float=False) | weights,
                scale_quant_params=None, zero_quant_params=None, offload_meta=False), skip_modules=["lm_head"])


def add(golden: Golden, name: str, weight, bias=None, dtype=torch.float16, **how) -> None:
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight.data = weight.float()
    if bias is not None:
        layer.bias.data = bias.float()
    config = BaseQuantizeConfig(nbits=how.get("nbits", 4), axis=how.get("axis", 1), view_as_float=how.get("view_as_float", False))
    config["weight_quant_params"] |= how
    linear = HQQLinear(layer, quant_config=config, compute_dtype=dtype, device="cpu")
    golden.tensors |= {f"{name}.{key}": tensor for key, tensor in linear.state_dict().items()}
    # The same steps as Quantizer.dequantize, with the product in f32.
    meta, packed = linear.meta, linear.W_q
    if meta["view_as_float"]:
        packed = packed.view(meta["unpack_view_dtype"])
    codes = Quantizer.unpack[meta["packing"]](packed, dtype=torch.float32)
    rows = np.prod(meta["shape"]) // meta["group_size"] if meta["axis"] == 1 else meta["group_size"]
    codes = codes[:rows]
    zeros, scales = (meta[key].float().expand(codes.shape) for key in ("zero", "scale"))
    shaped = lambda values: values.reshape(meta["shape"])
    golden.value(f"{name}.weight", shaped((codes - zeros) * scales))
    golden.library(f"{name}.weight", linear.dequantize())
    for piece, values in dict(codes=codes, scales=scales, zeros=zeros).items():
        golden.piece(f"{name}.weight", piece, shaped(values))


def make_forms(ctx) -> None:
    golden = Golden(ctx, "hqq-forms", config_of())
    torch.manual_seed(16)
    normal = lambda *shape: torch.randn(shape) * 0.05
    for nbits in (8, 4, 3, 2, 1.58, 1):
        for axis in (0, 1):
            label = str(nbits).replace(".", "_")
            add(golden, f"b{label}.axis{axis}", normal(48, 160), nbits=nbits, axis=axis, group_size=64)
    # 25 rows of groups and ten parts: three rows of words, and the last part is cut.
    add(golden, "b3.cut", normal(5, 320), nbits=3, axis=1, group_size=64)
    add(golden, "b3.cut0", normal(40, 160), nbits=3, axis=0, group_size=64, dtype=torch.bfloat16)
    equal = normal(32, 64)
    equal[3] = 0.125
    equal[4] = 0
    add(golden, "b4.equal", equal, nbits=4, axis=1, group_size=64, dtype=torch.float32)
    add(golden, "b4.row", normal(6, 160), bias=normal(6), nbits=4, axis=1, group_size=160, dtype=torch.bfloat16)
    add(golden, "b4.across", normal(16, 40), nbits=4, axis=1, group_size=80, dtype=torch.bfloat16)
    add(golden, "b4.seen16", normal(32, 128), nbits=4, axis=1, group_size=64, view_as_float=True)
    add(golden, "b4.seen32", normal(32, 128), nbits=4, axis=1, group_size=64, view_as_float=True, dtype=torch.float32)
    add(golden, "b2.seen0", normal(32, 128), nbits=2, axis=0, group_size=32, view_as_float=True, dtype=torch.bfloat16)
    add(golden, "b4.rounded", normal(32, 64), nbits=4, axis=1, group_size=32, round_zero=True)
    golden.tensors["plain.weight"] = normal(3, 5).half()
    golden.value("plain.weight", golden.tensors["plain.weight"])
    golden.value("b4.row.bias", golden.tensors["b4.row.bias"])
    golden.write()


def make_llama(ctx) -> None:
    config, tensors = small_llama(ctx)
    golden = Golden(ctx, "hqq-llama", config_of(), config)
    plain = {}
    for name, tensor in tensors.items():
        if is_linear(name):
            module = name.removesuffix("weight")
            add(golden, module[:-1], tensor, tensors[module + "bias"], dtype=torch.bfloat16, nbits=4, axis=1,
                group_size=64 if tensor.shape[1] % 64 == 0 else 32)
            plain[name] = golden.values[name]
        else:
            golden.tensors[name] = tensor
            plain[name] = tensor.float().numpy()
    golden.reference_file(plain, config)
    golden.write()


def make(ctx) -> None:
    for name, make_one in {"hqq-forms": make_forms, "hqq-llama": make_llama}.items():
        if ctx.wants(name):
            make_one(ctx)
