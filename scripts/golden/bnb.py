"""Makes golden/dialects/bnb-*: weights as bitsandbytes stores them, with what it decodes on a CPU.

bnb-4bit has every block size, both code tables, nested and plain absmax, every storage type, an odd number of
elements, a short last block, a block of zeros and names as GPTQModel writes them; bnb-8bit the int8 form; bnb-llama is
a whole checkpoint of one layer.
"""

import json

import numpy as np
import torch

from weight_forms import Golden, is_linear, small_llama


def config_of(**more) -> dict:
    return dict(quant_method="bitsandbytes", _load_in_4bit=True, _load_in_8bit=False, load_in_4bit=True,
                load_in_8bit=False, bnb_4bit_compute_dtype="bfloat16", bnb_4bit_quant_storage="uint8",
                bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, llm_int8_enable_fp32_cpu_offload=False,
                llm_int8_has_fp16_weight=False, llm_int8_skip_modules=None, llm_int8_threshold=6.0) | more


def linear4(weight, quant_type: str, blocksize: int, nested: bool, storage=torch.uint8):
    """The tensors of a Linear4bit with this weight, without its name."""
    import bitsandbytes as bnb
    out, width = weight.shape
    layer = bnb.nn.Linear4bit(width, out, bias=False, quant_type=quant_type)
    layer.weight = bnb.nn.Params4bit(weight.clone(), requires_grad=False, quant_type=quant_type, blocksize=blocksize,
                                     compress_statistics=nested, quant_storage=storage)
    layer = layer.to("cpu")
    if layer.weight.quant_state is None:
        layer.weight._quantize("cpu")
    state = layer.weight.quant_state
    tensors = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    own = bnb.functional.dequantize_4bit(layer.weight.data, state)
    state.dtype = torch.float32
    return tensors, own, bnb.functional.dequantize_4bit(layer.weight.data, state)


def formula(tensors: dict) -> np.ndarray:
    """The same in numpy: two roundings for a nested absmax, one for the product."""
    [state] = [json.loads(bytes(tensor.numpy())) for name, tensor in tensors.items() if "quant_state" in name]
    absmax = tensors["weight.absmax"]
    if absmax.dtype == torch.uint8:
        outer = np.repeat(tensors["weight.nested_absmax"].numpy(), state["nested_blocksize"])[:absmax.numel()]
        absmax = tensors["weight.nested_quant_map"].numpy()[absmax.numpy()] * outer + np.float32(state["nested_offset"])
    else:
        absmax = absmax.numpy()
    packed = tensors["weight"].contiguous().view(torch.uint8).numpy().reshape(-1)
    codes = np.stack([packed >> 4, packed & 15], 1).reshape(-1)[:int(np.prod(state["shape"]))]
    values = tensors["weight.quant_map"].numpy()[codes] * np.repeat(absmax, state["blocksize"])[:len(codes)]
    assert values.dtype == np.float32
    return values.reshape(state["shape"])


def add(golden: Golden, name: str, weight, gptqmodel=False, **how) -> None:
    tensors, own, value = linear4(weight, **how)
    # The kernels give -0 for code 8 of fp4, where the stored table has 0; the table is what we go by. `+ 0` takes the
    # sign away and nothing else.
    own, value = own + 0, value + 0
    assert np.array_equal((formula(tensors) + 0).view(np.uint32), value.numpy().view(np.uint32)), name
    for key, tensor in tensors.items():
        if gptqmodel:
            key = key.replace("quant_state.bitsandbytes__nf4", "quant_state").replace("weight.", "weight_")
        golden.tensors[f"{name}.{key}"] = tensor
    golden.value(f"{name}.weight", value)
    golden.library(f"{name}.weight", own)


def make_4bit(ctx) -> None:
    golden = Golden(ctx, "bnb-4bit", config_of())
    torch.manual_seed(14)
    normal = lambda *shape: torch.randn(shape) * 0.05
    with_zeros = normal(12, 64)
    with_zeros[2] = 0
    with_zeros[3] *= 1e-4
    cases = {
        "nf4.nested": (normal(48, 160).bfloat16(), dict(quant_type="nf4", blocksize=64, nested=True)),
        # More than 256 blocks: two outer ones, the last of them short.
        "nf4.outer": (normal(66, 130).bfloat16(), dict(quant_type="nf4", blocksize=32, nested=True)),
        "fp4.plain": (normal(6, 160).half(), dict(quant_type="fp4", blocksize=32, nested=False)),
        "fp4.nested": (normal(10, 96), dict(quant_type="fp4", blocksize=128, nested=True)),
        # Blocks cross rows; the last has 22 elements.
        "nf4.short": (normal(3, 50).half(), dict(quant_type="nf4", blocksize=64, nested=False)),
        "nf4.odd": (normal(7, 9), dict(quant_type="nf4", blocksize=64, nested=False)),
        "nf4.large": (normal(65, 128).bfloat16(), dict(quant_type="nf4", blocksize=4096, nested=False)),
        "nf4.zeros": (with_zeros, dict(quant_type="nf4", blocksize=64, nested=False)),
        "nf4.bf16": (normal(8, 64).bfloat16(), dict(quant_type="nf4", blocksize=64, nested=True, storage=torch.bfloat16)),
        "nf4.f16": (normal(8, 64).half(), dict(quant_type="nf4", blocksize=64, nested=False, storage=torch.float16)),
        "nf4.f32": (normal(8, 64), dict(quant_type="nf4", blocksize=64, nested=True, storage=torch.float32)),
        "gptqmodel.nested": (normal(6, 128).bfloat16(), dict(quant_type="nf4", blocksize=64, nested=True,
                                                          gptqmodel=True)),
    }
    for name, (weight, how) in cases.items():
        add(golden, name, weight, **how)
    golden.tensors["plain.weight"] = normal(3, 5).bfloat16()
    golden.value("plain.weight", golden.tensors["plain.weight"])
    golden.write()


def make_8bit(ctx) -> None:
    import bitsandbytes as bnb
    golden = Golden(ctx, "bnb-8bit", config_of(load_in_4bit=False, load_in_8bit=True, _load_in_4bit=False, _load_in_8bit=True))
    torch.manual_seed(15)
    for name, shape in {"a": (48, 160), "b": (5, 33)}.items():
        weight = (torch.randn(shape) * 0.05).half()
        weight[2] = 0
        weight[1, 3] = 4
        layer = bnb.nn.Linear8bitLt(shape[1], shape[0], bias=name == "a", has_fp16_weights=False)
        layer.weight = bnb.nn.Int8Params(weight.clone(), requires_grad=False, has_fp16_weights=False)
        layer = layer.to("cpu")
        if layer.weight.SCB is None:
            layer.weight._quantize("cpu")
        golden.tensors |= {f"{name}.{key}": tensor.clone() for key, tensor in layer.state_dict().items()}
        value = bnb.functional.int8_vectorwise_dequant(layer.weight.data, layer.weight.SCB)
        codes, scales = layer.weight.data.numpy().astype(np.float32), layer.weight.SCB.numpy()
        formula = codes * scales[:, None] * np.float32(0.007874015718698502)
        assert formula.dtype == np.float32 and np.array_equal(formula, value.numpy())
        golden.value(f"{name}.weight", value)
    golden.value("a.bias", golden.tensors["a.bias"])
    golden.write()


def make_llama(ctx) -> None:
    config, tensors = small_llama(ctx)
    quantization = config_of(llm_int8_skip_modules=["lm_head"])
    golden = Golden(ctx, "bnb-llama", quantization, config)
    plain = {}
    for name, tensor in tensors.items():
        if is_linear(name):
            add(golden, name.removesuffix(".weight"), tensor, quant_type="nf4", blocksize=64, nested=True)
            plain[name] = golden.values[name]
        else:
            golden.tensors[name] = tensor
            plain[name] = tensor.float().numpy()
    golden.reference_file(plain, config)
    golden.write()


def make(ctx) -> None:
    for name, make_one in {"bnb-4bit": make_4bit, "bnb-8bit": make_8bit, "bnb-llama": make_llama}.items():
        if ctx.wants(name):
            make_one(ctx)
