"""Makes golden/dialects/mlx-*: weights as mlx quantizes them in its affine mode, with what it decodes on a CPU.

mlx-affine has 2, 3, 4, 5, 6 and 8 bits in groups of 32, 64 and 128, scales of three types, a stack of experts, overrides
by path and the names that transformers writes for `metal`; mlx-llama is a whole checkpoint of one layer whose
embedding and head are quantized too. mlx rounds twice, so beside its own output there are the pieces that it is made of,
for each element.
"""

import numpy as np
import torch

from weight_forms import Golden, is_linear, small_llama


def to_torch(array):
    """A tensor of torch with the bytes of one of mlx."""
    import mlx.core as mx
    if array.dtype == mx.bfloat16:
        return torch.from_numpy(np.array(array.view(mx.uint16)).astype(np.int32)).to(torch.uint16).view(torch.bfloat16)
    if array.dtype == mx.uint32:
        return torch.from_numpy(np.array(array)).view(torch.uint32)
    return torch.from_numpy(np.array(array))


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Codes of rows of words: a stream of bits, low bits first."""
    stream = np.unpackbits(packed.view(np.uint8), axis=-1, bitorder="little")
    codes = stream.reshape(*stream.shape[:-1], -1, bits)
    return (codes * (1 << np.arange(bits))).sum(-1)


def add(golden: Golden, name: str, weight, bits: int, group: int, offsets="biases", suffix=".weight") -> None:
    import mlx.core as mx
    array = mx.array(weight.float().numpy()).astype({torch.bfloat16: mx.bfloat16, torch.float16: mx.float16,
                                                     torch.float32: mx.float32}[weight.dtype])
    packed, scales, biases = mx.quantize(array, group_size=group, bits=bits)
    own = mx.dequantize(packed, scales, biases, group_size=group, bits=bits)
    packed, scales, biases, own = map(to_torch, (packed, scales, biases, own))
    golden.tensors |= {name + suffix: packed, f"{name}.scales": scales, f"{name}.{offsets}": biases}
    codes = unpacked(packed.view(torch.int32).numpy(), bits).astype(np.float32)
    spread = lambda values: np.repeat(values.float().numpy(), group, axis=-1)
    golden.value(name + ".weight", codes * spread(scales) + spread(biases))
    golden.library(name + ".weight", own)
    for piece, values in dict(codes=codes, scales=spread(scales), zeros=spread(biases)).items():
        golden.piece(name + ".weight", piece, values)


def make_affine(ctx) -> None:
    overrides = {}
    golden_config = dict(group_size=64, bits=4, mode="affine")
    torch.manual_seed(18)
    normal = lambda *shape: torch.randn(shape) * 0.05
    cases = {}
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            dtype = {32: torch.bfloat16, 64: torch.float16, 128: torch.float32}[group]
            cases[f"b{bits}.g{group}"] = (normal(10, 256).to(dtype), bits, group)
    equal = normal(6, 128).bfloat16()
    equal[1] = 0.125
    equal[2] = 0
    equal[3, :64] = torch.linspace(-1, 3, 64)
    cases["equal"] = (equal, 4, 64)
    # Scales too small for an f16.
    cases["small"] = ((normal(4, 64) * 1e-7).bfloat16(), 4, 64)
    cases["switch_mlp.up_proj"] = (normal(3, 8, 64).bfloat16(), 4, 32)
    for name, (_, bits, group) in cases.items():
        if (bits, group) != (4, 64):
            overrides[name] = dict(group_size=group, bits=bits)
    overrides["plain"] = False
    golden = Golden(ctx, "mlx-affine", golden_config | overrides, key=("quantization", "quantization_config"))
    for name, (weight, bits, group) in cases.items():
        add(golden, name, weight, bits, group)
    golden.tensors["plain.weight"] = normal(3, 5).bfloat16()
    golden.value("plain.weight", golden.tensors["plain.weight"])
    golden.write(metadata={"format": "mlx"})


def make_metal(ctx) -> None:
    golden = Golden(ctx, "mlx-metal", dict(quant_method="metal", bits=4, group_size=64, modules_to_not_convert=["lm_head"]))
    torch.manual_seed(19)
    add(golden, "a", (torch.randn(6, 128) * 0.05).bfloat16(), 4, 64, offsets="qbiases")
    golden.write()


def make_llama(ctx) -> None:
    config, tensors = small_llama(ctx)
    quantization = dict(group_size=32, bits=4, mode="affine")
    mixed = {"model.layers.0.mlp.down_proj": dict(group_size=32, bits=6), "model.layers.0.self_attn.v_proj": False}
    golden = Golden(ctx, "mlx-llama", quantization | mixed, config, key=("quantization", "quantization_config"))
    plain = {}
    for name, tensor in tensors.items():
        module = name.removesuffix(".weight")
        if mixed.get(module) is not False and (is_linear(name) or tensor.dim() == 2):
            add(golden, module, tensor, mixed.get(module, quantization)["bits"], 32)
            plain[name] = golden.values[name]
        else:
            golden.tensors[name] = tensor
            plain[name] = tensor.float().numpy()
    golden.reference_file(plain, config)
    golden.write(metadata={"format": "mlx"})


def make(ctx) -> None:
    for name, make_one in {"mlx-affine": make_affine, "mlx-metal": make_metal, "mlx-llama": make_llama}.items():
        if ctx.wants(name):
            make_one(ctx)
