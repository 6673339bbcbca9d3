"""Makes golden/dialects/mlx-*: weights as mlx quantizes them, with what it decodes on a CPU.

mlx-affine has 2, 3, 4, 5, 6 and 8 bits in groups of 32, 64 and 128, scales of three types, a stack of experts, overrides
by path and the names that transformers writes for `metal`; mlx-llama is a whole checkpoint of one layer whose
embedding and head are quantized too. In its affine mode mlx rounds twice, so beside its own output there are the pieces that
it is made of, for each element.

mlx-modes has mxfp4, nvfp4 and mxfp8 as mlx quantizes them and with every code and scale that is a number; mlx-mxfp4-llama
and mlx-nvfp4-llama are whole checkpoints of one layer, mlx-nvfp4-experts one of a mixture of experts; mlx-gpt-oss is
golden/arch/gpt-oss-mxfp4 as `sanitize` of mlx-lm names it. What the reference reads of the same codes under other names
(ModelOpt's NVFP4, OpenAI's experts) is the golden of the whole file.
"""

import json
import shutil

import numpy as np
import torch

from fp4_values import E2M1, blocks, codes, e4m3, e8m0, exponents, nibbles, reference, spread, ue4m3
from weight_forms import Golden, is_linear, modelopt_nvfp4, small_llama


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


def bytes_of(packed: torch.Tensor) -> torch.Tensor:
    """Codes of words as bytes."""
    return packed.view(torch.int32).contiguous().view(torch.uint8)


def words(code: torch.Tensor) -> torch.Tensor:
    return code.contiguous().view(torch.int32).view(torch.uint32)


def finite_e4m3(*shape: int) -> torch.Tensor:
    """Every code of e4m3 that is a number, then drawn ones."""
    n = int(np.prod(shape))
    numbers = torch.tensor([code for code in range(256) if code & 127 != 127], dtype=torch.uint8)
    drawn = numbers[torch.randint(0, len(numbers), (max(n - len(numbers), 0),))]
    return torch.cat([numbers[:n], drawn]).reshape(shape)


def formula(mode: str, packed: torch.Tensor, scales: torch.Tensor, largest=None) -> np.ndarray:
    """The values of codes in words; `largest` is the `global_scale` of nvfp4."""
    if mode == "mxfp8":
        return e4m3(bytes_of(packed)) * spread(e8m0(scales), 32)
    if mode == "mxfp4":
        return E2M1[nibbles(bytes_of(packed))] * spread(e8m0(scales), 32)
    factor = np.float32(1) if largest is None else (largest.numpy() / np.float32(448 * 6)).astype(np.float32)
    return E2M1[nibbles(bytes_of(packed))] * spread((e4m3(scales) * factor).astype(np.float32), 16)


def decoded(mode: str, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What mlx decodes, in f32. A `global_scale` is for its GPUs alone."""
    import mlx.core as mx
    arrays = [mx.array(part.numpy()) for part in (packed.view(torch.int32).contiguous(), scales)]
    own = mx.dequantize(arrays[0].view(mx.uint32), arrays[1], mode=mode, dtype=mx.float32)
    return torch.from_numpy(np.array(own))


def store(golden: Golden, name: str, packed, scales, largest=None) -> None:
    golden.tensors |= {f"{name}.weight": packed, f"{name}.scales": scales}
    if largest is not None:
        golden.tensors[f"{name}.global_scale"] = largest


def expect(golden: Golden, name: str, mode: str, packed, scales, largest=None) -> None:
    """The values of the tensor `name`, what mlx decodes, and blocks of ggml."""
    values = formula(mode, packed, scales, largest)
    golden.value(name, values)
    if largest is None:
        own = decoded(mode, packed, scales)
        assert np.array_equal(own.numpy().view(np.uint32), values.view(np.uint32)), (name, "mlx decodes otherwise")
        golden.library(name, own)
    code, scale = bytes_of(packed).flatten(0, -2), scales.flatten(0, -2)
    if mode == "mxfp4":
        blocks(golden, name, "mxfp4", reference().repack_mxfp4_blocks(code, scale))
    elif mode == "nvfp4" and values.shape[-1] % 64 == 0:
        blocks(golden, name, "nvfp4", reference()._nvfp4_pack(code, scale)[0])


def quantized(weight: torch.Tensor, mode: str) -> list:
    import mlx.core as mx
    return [to_torch(part) for part in mx.quantize(mx.array(weight.float().numpy()).astype(mx.bfloat16), mode=mode)]


MODES = dict(mxfp4=dict(group_size=32, bits=4), nvfp4=dict(group_size=16, bits=4), mxfp8=dict(group_size=32, bits=8))


def make_modes(ctx) -> None:
    torch.manual_seed(22)
    normal = lambda *shape: torch.randn(shape) * 0.05
    cases, stacks = {}, {}
    for mode in MODES:
        cases[f"{mode}.own"] = [mode, *quantized(normal(10, 192), mode)]
        zeros = normal(4, 64)
        zeros[1], zeros[2, :32], zeros[3] = 0, -0.0, 1e-30
        cases[f"{mode}.zeros"] = [mode, *quantized(zeros, mode)]
        stacks[f"{mode}.mlp.switch_mlp.down_proj"] = [mode, *quantized(normal(3, 8, 64), mode)]
    # Every byte of codes, every scale.
    cases["mxfp4.all"] = ["mxfp4", words(codes(16, 48)), exponents(16, 3)]
    cases["nvfp4.all"] = ["nvfp4", words(codes(16, 64)), ue4m3(16, 8).view(torch.uint8)]
    cases["mxfp8.all"] = ["mxfp8", words(finite_e4m3(16, 96)), exponents(16, 3).clamp(max=244)]
    # Rows that are no whole block of ggml's, and a scale of the tensor.
    cases["nvfp4.short"] = ["nvfp4", words(codes(8, 24)), ue4m3(8, 3).view(torch.uint8)]
    cases["nvfp4.scaled"] = ["nvfp4", words(codes(8, 32)), ue4m3(8, 4).view(torch.uint8), torch.tensor(3.7)]
    stacks["scaled.mlp.switch_mlp.up_proj"] = ["nvfp4", words(codes(3, 8, 32)), ue4m3(3, 8, 4).view(torch.uint8),
                                               torch.tensor([2.5, 1000.0, 0.3])]
    config = dict(group_size=32, bits=4, mode="mxfp4", plain=False)
    config |= {name: dict(MODES[mode], mode=mode) for name, (mode, *_) in (cases | stacks).items() if mode != "mxfp4"}
    golden = Golden(ctx, "mlx-modes", config, key=("quantization", "quantization_config"))
    for name, (mode, *parts) in cases.items():
        store(golden, name, *parts)
        expect(golden, f"{name}.weight", mode, *parts)
    for name, (mode, *parts) in stacks.items():
        store(golden, name, *parts)
        # As Hugging Face's checkpoints have them.
        before, matrix = name.split(".switch_mlp.")
        for expert in range(3):
            expect(golden, f"{before}.experts.{expert}.{matrix}.weight", mode, *[part[expert] for part in parts])
    golden.tensors["plain.weight"] = normal(3, 5).bfloat16()
    golden.value("plain.weight", golden.tensors["plain.weight"])
    golden.write(metadata={"format": "mlx"})


def make_mxfp4_llama(ctx) -> None:
    config, tensors = small_llama(ctx)
    mixed = {"model.layers.0.self_attn.v_proj": "mxfp8", "model.layers.0.self_attn.k_proj": False}
    quantization = dict(group_size=32, bits=4, mode="mxfp4") | {
        name: mode and dict(MODES[mode], mode=mode) for name, mode in mixed.items()}
    golden = Golden(ctx, "mlx-mxfp4-llama", quantization, config, key=("quantization", "quantization_config"))
    plain = {}
    for name, tensor in tensors.items():
        module = name.removesuffix(".weight")
        if tensor.dim() == 2 and (mode := mixed.get(module, "mxfp4")):
            parts = quantized(tensor, mode)
            store(golden, module, *parts)
            expect(golden, name, mode, *parts)
            plain[name] = golden.values[name]
        else:
            golden.tensors[name] = tensor
            plain[name] = tensor.float().numpy()
    golden.reference_file(plain, config)
    golden.write(metadata={"format": "mlx"})


def as_modelopt(twin: dict, module: str, packed, scales, largest=None) -> None:
    """The same matrix in NVFP4 as ModelOpt names it, for the reference."""
    twin |= {f"{module}.weight": bytes_of(packed), f"{module}.weight_scale": scales.view(torch.float8_e4m3fn)}
    if largest is not None:
        twin[f"{module}.weight_scale_2"] = largest / torch.tensor(448.0 * 6)


def make_nvfp4_llama(ctx) -> None:
    config, tensors = small_llama(ctx)
    golden = Golden(ctx, "mlx-nvfp4-llama", dict(group_size=16, bits=4, mode="nvfp4"), config,
                    key=("quantization", "quantization_config"))
    twin = {}
    for name, tensor in tensors.items():
        module = name.removesuffix(".weight")
        if tensor.dim() == 2:
            parts = quantized(tensor, "nvfp4")
            if "q_proj" in name or "up_proj" in name:
                parts.append(torch.tensor([1.9 if "q_proj" in name else 700.0]))
            store(golden, module, *parts)
            expect(golden, name, "nvfp4", *parts)
            if tensor.shape[1] % 64 == 0:
                as_modelopt(twin, module, *parts)
            else:
                # No whole blocks, which the reference does not read.
                twin[name] = torch.from_numpy(golden.values[name])
        else:
            golden.tensors[name] = twin[name] = tensor
    golden.reference_twin(twin, config | dict(quantization_config=modelopt_nvfp4()))
    golden.write(metadata={"format": "mlx"})


def make_nvfp4_experts(ctx) -> None:
    from forms_fp4 import ATTENTION, QWEN, WIDTH, plain
    torch.manual_seed(23)
    config = QWEN | dict(num_hidden_layers=1)
    golden = Golden(ctx, "mlx-nvfp4-experts", dict(group_size=16, bits=4, mode="nvfp4"), config,
                    key=("quantization", "quantization_config"))
    shapes = plain(ATTENTION | {"mlp.gate": (3, WIDTH)}) | {
        f"model.layers.0.self_attn.{x}_norm.weight": "near-one 16" for x in ("q", "k")}
    twin = {name: torch.randn([int(n) for n in shape.split()[-1].split("x")]).mul(0.05).bfloat16()
            for name, shape in shapes.items() if "layers.1." not in name}
    golden.tensors |= twin
    for matrix in ("gate", "up", "down"):
        stack = quantized(torch.randn(3, WIDTH, WIDTH) * 0.05, "nvfp4")
        if matrix == "down":
            stack.append(torch.tensor([0.5, 2688.0, 40.0]))
        store(golden, f"model.layers.0.mlp.switch_mlp.{matrix}_proj", *stack)
        for expert in range(3):
            one = [part[expert] for part in stack]
            module = f"model.layers.0.mlp.experts.{expert}.{matrix}_proj"
            expect(golden, f"{module}.weight", "nvfp4", *one)
            as_modelopt(twin, module, *one)
    golden.reference_twin(twin, config | dict(quantization_config=modelopt_nvfp4()), "bpe-384", "llama-bpe")
    golden.write(metadata={"format": "mlx"})


def make_gpt_oss(ctx) -> None:
    """As mlx-lm loads the checkpoint of OpenAI and saves it again."""
    import mlx.core as mx
    from mlx_lm.models.gpt_oss import Model, ModelArgs
    folder = ctx.scratch / "decoded" / "mlx-gpt-oss"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ctx.checkpoint("gpt-oss-mxfp4"), folder)
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    golden = Golden(ctx, "mlx-gpt-oss", dict(group_size=32, bits=4, mode="mxfp4"), config,
                    key=("quantization", "quantization_config"))
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights |= mx.load(str(path))
    for name, weight in Model(ModelArgs.from_dict(config)).sanitize(weights).items():
        golden.tensors[name] = to_torch(weight)
    for layer in range(config["num_hidden_layers"]):
        experts = f"model.layers.{layer}.mlp.experts."
        gate, up, down = ([golden.tensors[f"{experts}{x}_proj.{part}"] for part in ("weight", "scales")]
                          for x in ("gate", "up", "down"))
        # Rows alternate.
        both = [torch.stack([a.view(torch.uint8), b.view(torch.uint8)], 2).flatten(1, 2) for a, b in zip(gate, up)]
        expect(golden, f"{experts}gate_up_proj_blocks", "mxfp4", words(both[0]), both[1])
        expect(golden, f"{experts}down_proj_blocks", "mxfp4", *down)
        biases = [golden.tensors[f"{experts}{x}_proj.bias"] for x in ("gate", "up", "down")]
        golden.value(f"{experts}gate_up_proj_bias", torch.stack(biases[:2], 2).flatten(1, 2))
        golden.value(f"{experts}down_proj_bias", biases[2])
    golden.reference_folder(folder, "bpe-288", "llama-bpe")
    golden.write(metadata={"format": "mlx"})


MAKERS = {"mlx-affine": make_affine, "mlx-metal": make_metal, "mlx-llama": make_llama, "mlx-modes": make_modes,
          "mlx-mxfp4-llama": make_mxfp4_llama, "mlx-nvfp4-llama": make_nvfp4_llama,
          "mlx-nvfp4-experts": make_nvfp4_experts, "mlx-gpt-oss": make_gpt_oss}


def make(ctx) -> None:
    for name, make_one in MAKERS.items():
        if ctx.wants(name):
            make_one(ctx)
