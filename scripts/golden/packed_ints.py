"""Makes golden/dialects/{quanto,bitnet,gemma,modelopt,quark}-*: integers of 1 to 8 bits as optimum-quanto, transformers,
ModelOpt and Quark store them.

quanto, BitNet and Gemma: packed and decoded by the libraries on a CPU. ModelOpt and Quark: packed by the layout of
their exports and decoded by their formulas in numpy, for their own code needs devices or packages that are not here; the
newer types of Quark by its own packers (input `quark`, its unpacked wheel).
"""

import numpy as np
import torch

from weight_forms import Golden


def make_quanto(ctx) -> None:
    from optimum.quanto import freeze, qint2, qint4, qint8, quantize
    torch.manual_seed(22)
    golden = Golden(ctx, "quanto-int8", dict(quant_method="quanto", weights="int8", activations=None))
    holder = torch.nn.ModuleDict({"a": torch.nn.Linear(160, 48, bias=True), "b": torch.nn.Linear(33, 5, bias=False)})
    holder["a"].half(), holder["b"].bfloat16()
    quantize(holder, weights=qint8)
    freeze(holder)
    golden.tensors = dict(holder.state_dict())
    for name, layer in holder.items():
        weight = layer.weight
        codes, scales = weight._data.float().numpy(), weight._scale.float().numpy()
        golden.value(f"{name}.weight", codes * scales)
        golden.library(f"{name}.weight", weight.dequantize())
    golden.value("a.bias", holder["a"].bias)
    golden.write()

    config = dict(hidden_size=160, intermediate_size=96, num_attention_heads=4, head_dim=32, model_type="llama")
    golden = Golden(ctx, "quanto-packed", dict(quant_method="quanto", weights="int4", activations=None), config)
    for bits, qtype in {4: qint4, 2: qint2}.items():
        # Groups of 128, 32 and 96; whole rows; rows of groups that do not divide evenly among the parts of a byte.
        shapes = {"self_attn.q_proj": (128, 160), "self_attn.o_proj": (160, 128), "mlp.down_proj": (160, 96),
                  "mlp.odd": (7, 96)}
        layers = {name.replace(".", "_"): torch.nn.Linear(width, out, bias="odd" in name) for name, (out, width) in shapes.items()}
        holder = torch.nn.ModuleDict(layers).to(torch.float16 if bits == 4 else torch.bfloat16)
        quantize(holder, weights=qtype)
        freeze(holder)
        for name in shapes:
            layer, full = holder[name.replace(".", "_")], f"b{bits}.{name}"
            golden.tensors |= {f"{full}.{key}": tensor for key, tensor in layer.state_dict().items()}
            weight = layer.weight
            group = weight._group_size or weight.shape[1]
            codes = weight._data.unpack().float().numpy().reshape(weight.shape)
            spread = lambda values: np.repeat(values.float().numpy().reshape(weight.shape[0], -1), group, axis=1)
            scales, shifts = spread(weight._scale), spread(weight._shift)
            golden.value(f"{full}.weight", codes * scales - shifts)
            golden.library(f"{full}.weight", weight.dequantize())
            for piece, values in dict(codes=codes, scales=scales, zeros=shifts).items():
                golden.piece(f"{full}.weight", piece, values)
            if layer.bias is not None:
                golden.value(f"{full}.bias", layer.bias)
    golden.write()


def make_bitnet(ctx) -> None:
    from transformers.integrations.bitnet import pack_weights, unpack_weights
    torch.manual_seed(23)
    for name, config, divides in [
        ("bitnet-bitlinear", dict(linear_class="bitlinear"), True),
        ("bitnet-offline", dict(linear_class="autobitlinear", quantization_mode="offline"), False),
    ]:
        golden = Golden(ctx, name, dict(quant_method="bitnet", modules_to_not_convert=["lm_head"]) | config)
        # A scale that fits an f16 and one that does not.
        for module, (shape, scale) in {"a": ((16, 256), 1.21875), "b": ((8, 96), 2.0**-9), "c": ((4, 512), 3e-8)}.items():
            ternary = torch.randint(-1, 2, shape, dtype=torch.int8)
            packed = pack_weights(ternary.clone())
            scale = torch.tensor([scale], dtype=torch.bfloat16)
            golden.tensors |= {f"{module}.weight": packed, f"{module}.weight_scale": scale}
            codes = unpack_weights.__wrapped__(packed, torch.float32) if hasattr(unpack_weights, "__wrapped__") else ternary.float()
            assert torch.equal(codes, ternary.float())
            scale = scale.float().numpy()
            golden.value(f"{module}.weight", codes.numpy() / scale if divides else codes.numpy() * scale)
        golden.tensors["lm_head.weight"] = torch.randn(4, 8).bfloat16()
        golden.value("lm_head.weight", golden.tensors["lm_head.weight"])
        golden.write()


def make_gemma(ctx) -> None:
    from transformers.integrations.gemma_quant import QuantizedEmbedding, QuantizedLinear
    torch.manual_seed(24)
    config = dict(quant_method="gemma", num_bits=4, quantize_embeddings=True, modules_to_not_convert=["lm_head"],
                  module_quant_configs={r"layers\.(0|2)\..*down_proj$": {"num_bits": 8}, "embed_": {"num_bits": 2},
                                        r"blocks$": {"num_bits": 8}, r"layers\.1\.": {}, r"\.k_proj": {"num_bits": 2}})
    golden = Golden(ctx, "gemma-ints", config)

    def codes(parameter):
        limits = (0, 256) if parameter.dtype == torch.uint8 else (-128, 128)
        parameter.data = torch.randint(*limits, parameter.shape, dtype=torch.int16).to(parameter.dtype)

    linears = {"layers.0.self_attn.q_proj": (4, (16, 64)), "layers.0.mlp.down_proj": (8, (12, 96)),
               "layers.0.self_attn.k_proj": (2, (8, 64)), "layers.1.self_attn.k_proj": (4, (8, 64))}
    for index, (name, (bits, (out, width))) in enumerate(linears.items()):
        layer = QuantizedLinear(width, out, num_bits=bits)
        codes(layer.weight)
        # Powers of two fit an f16, others do not.
        scales = torch.rand(out, 1) * 0.01 if index % 2 else 2.0 ** torch.randint(-9, -3, (out, 1)).float()
        layer.weight_scale.data = scales
        layer.input_activation_scale.data = torch.tensor(0.05 if index == 0 else 0.0)
        golden.tensors |= {f"{name}.{key}": tensor for key, tensor in layer.state_dict().items()}
        golden.value(f"{name}.weight", layer._dequantize_weights())
        golden.library(f"{name}.weight", layer._dequantize_weights(torch.float32))
    for name, bits, blocks in [("embed_tokens", 2, 1), ("embed_per_layer", 2, 4), ("blocks", 8, 2)]:
        layer = QuantizedEmbedding(24, 128, torch.float32, num_bits=bits)
        codes(layer.embedding_quantized)
        layer.embedding_scale.data = torch.rand(24, blocks) * 0.01
        golden.tensors |= {f"{name}.{key}": tensor for key, tensor in layer.state_dict().items()}
        golden.value(f"{name}.weight", layer.weight)
    golden.tensors["lm_head.weight"] = torch.randn(4, 8).bfloat16()
    golden.value("lm_head.weight", golden.tensors["lm_head.weight"])
    golden.write()


def nibbles(low, high) -> np.ndarray:
    """Two codes a byte."""
    return (low & 15 | (high & 15) << 4).astype(np.uint8)


def make_modelopt(ctx) -> None:
    rng = np.random.default_rng(25)
    half = lambda values, dtype=torch.bfloat16: torch.from_numpy(np.asarray(values, np.float32)).to(dtype)
    as_f32 = lambda tensor: tensor.float().numpy()
    golden = Golden(ctx, "modelopt-awq", dict(quant_method="modelopt", quant_algo="W4A16_AWQ", group_size=64,
                                              has_zero_point=False, pre_quant_scale=True))
    for name, dtype, has_pre in [("a", torch.bfloat16, True), ("b", torch.float16, False)]:
        codes = rng.integers(-8, 8, (24, 192))
        scales = half(rng.normal(size=(24, 3)) * 0.02, dtype)
        golden.tensors |= {f"{name}.weight": torch.from_numpy(nibbles(codes[::2], codes[1::2])), f"{name}.weight_scale": scales}
        value = codes.astype(np.float32) * np.repeat(as_f32(scales), 64, axis=1)
        if has_pre:
            pre = half(rng.uniform(0.5, 2, 192), dtype)
            golden.tensors[f"{name}.pre_quant_scale"] = pre
            value = value * as_f32(pre)
        golden.value(f"{name}.weight", value)
    golden.write()
    golden = Golden(ctx, "modelopt-int8", dict(quant_method="modelopt", quant_algo="W8A8_SQ_PER_CHANNEL"))
    for name, has_pre in [("a", True), ("b", False)]:
        codes, scales = rng.integers(-128, 128, (10, 96)).astype(np.int8), (rng.random(10) * 0.01).astype(np.float32)
        golden.tensors |= {f"{name}.weight": torch.from_numpy(codes), f"{name}.weight_scale": torch.from_numpy(scales),
                           f"{name}.input_scale": torch.tensor(0.5)}
        value = codes.astype(np.float32) * scales[:, None]
        if has_pre:
            pre = half(rng.uniform(0.5, 2, 96))
            golden.tensors[f"{name}.pre_quant_scale"] = pre
            value = value * as_f32(pre)
        golden.value(f"{name}.weight", value)
    golden.write()


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def words(codes: np.ndarray, reorder: bool) -> torch.Tensor:
    """Eight nibbles a word along the last dimension, in AWQ's order if that is wanted."""
    packed = np.zeros((codes.shape[0], codes.shape[1] // 8), np.uint32)
    for place in range(8):
        source = AWQ_ORDER[place] if reorder else place
        packed |= (codes[:, source::8].astype(np.uint32) & np.uint32(15)) << np.uint32(4 * place)
    return torch.from_numpy(packed.view(np.int32))


def quark_packers(ctx):
    """`torch/utils/pack.py` of amd-quark (0.13) alone, which needs of the others only names of types."""
    import importlib.util
    import sys
    import types
    for name, values in {
        "quark.torch.quantization.config.type": dict(Dtype=None, QSchemeType=None, ZeroPointType=None),
        "quark.torch.quantization.constants": dict(PER_GROUP_INT_TRANSPOSE_DTYPES=[]),
        "quark.torch.quantization.utils": dict(get_dtype_params=None),
        "quark.torch.utils.numerics": dict(safe_log2=None),
    }.items():
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            module = sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        vars(module).update(values)
    spec = importlib.util.spec_from_file_location("quark_pack", ctx.inputs["quark"] + "/quark/torch/utils/pack.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_quark(ctx) -> None:
    packers = quark_packers(ctx)
    rng = np.random.default_rng(26)
    half = lambda values: torch.from_numpy(np.asarray(values, np.float32)).to(torch.float16)
    for name, dtype, reorder, transposed in [("quark-uint4", "uint4", True, True), ("quark-uint4-order", "uint4", False, True),
                                             ("quark-int4", "int4", True, True), ("quark-int4-before1", "int4", True, False)]:
        signed = dtype == "int4"
        golden = Golden(ctx, name, dict(quant_method="quark", export=dict(pack_method="reorder" if reorder else "order",
                        weight_format="real_quantized"), global_quant_config=dict(weight=dict(dtype=dtype,
                        qscheme="per_group", group_size=32, ch_axis=1, symmetric=signed), input_tensors=None, bias=None),
                        exclude=["lm_head"], layer_quant_config={}, layer_type_quant_config={},
                        quant_mode="eager_mode") | ({} if transposed else {"version": "0.8"}))
        for module, (out, width) in {"a": (32, 128), "b": (16, 64)}.items():
            codes = rng.integers(-8, 8, (out, width)) if signed else rng.integers(0, 16, (out, width))
            scales = half(rng.random((out, width // 32)) * 0.02)
            zeros = np.zeros((out, width // 32), np.int64) if signed else rng.integers(0, 16, (out, width // 32))
            golden.tensors[f"{module}.weight"] = words(codes.T, reorder)
            golden.tensors[f"{module}.weight_scale"] = scales.T.contiguous() if transposed else scales
            if not signed:
                golden.tensors[f"{module}.weight_zero_point"] = words(zeros.T, reorder)
            spread = lambda values: np.repeat(values, 32, axis=1)
            golden.value(f"{module}.weight", (codes - spread(zeros)).astype(np.float32) * spread(scales.float().numpy()))
        golden.write()
    for name, dtype, bits, scheme, floats in [("quark-uint2", "uint2", 2, "per_group", False),
                                              ("quark-uint2-floats", "uint2", 2, "per_group", True),
                                              ("quark-uint2-channel", "uint2", 2, "per_channel", False),
                                              ("quark-int3", "int3", 3, "per_group", False),
                                              ("quark-int3-channel", "int3", 3, "per_channel", False),
                                              ("quark-uint8", "uint8", 8, "per_group", False),
                                              ("quark-uint8-channel", "uint8", 8, "per_channel", False),
                                              ("quark-int8-group", "int8", 8, "per_group", False)]:
        draw = np.random.default_rng(sum(map(ord, name)))
        golden = Golden(ctx, name, dict(quant_method="quark", export=dict(pack_method="reorder", weight_format="real_quantized"),
                        global_quant_config=dict(weight=dict(dtype=dtype, qscheme=scheme, group_size=32, ch_axis=1 if
                        scheme == "per_group" else 0, symmetric=dtype.startswith("int"))), exclude=["lm_head"]))
        packer = packers.create_pack_method(scheme, dtype)
        signed = dtype.startswith("int")
        low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
        for module, (out, width) in {"a": (32, 128), "b": (16, 64)}.items():
            groups = width // 32 if scheme == "per_group" else 1
            codes, scales = draw.integers(low, high, (out, width)), half(draw.random((out, groups)) * 0.02)
            zeros = np.zeros((out, groups), np.int64) if signed else draw.integers(0, high, (out, groups))
            zeros = zeros + draw.random((out, groups)).astype(np.float32) if floats else zeros
            stored_as = lambda values: values.astype(np.float32)
            tensor = lambda values: torch.from_numpy(stored_as(values) if floats else values.astype(np.int32))
            golden.tensors[f"{module}.weight"] = packer.pack(torch.from_numpy(codes.astype(np.int32)), True)
            one = scheme != "per_group"
            golden.tensors[f"{module}.weight_scale"] = scales[:, 0].contiguous() if one else scales.T.contiguous()
            stored = tensor(zeros)
            if not (floats or dtype == "int3"):
                stored = packer.pack(stored[:, 0].contiguous() if one else stored, True)
            # Exports of symmetric codes have zeros of 0 too, which int3 packs only where they are a multiple of 8.
            if dtype == "int3":
                stored = torch.zeros(out // 8 * 3, dtype=torch.uint8)
            golden.tensors[f"{module}.weight_zero_point"] = stored.T.contiguous() if floats else stored
            spread = lambda values: np.repeat(values, width // groups, axis=1)
            golden.value(f"{module}.weight", (codes.astype(np.float32) - spread(stored_as(zeros))) * spread(scales.float().numpy()))
        golden.write()
    golden = Golden(ctx, "quark-int8", dict(quant_method="quark", export=dict(pack_method="reorder"), exclude=[],
                    global_quant_config=dict(weight=dict(dtype="int8", qscheme="per_channel", ch_axis=0, symmetric=True))))
    codes, scales = rng.integers(-128, 128, (10, 96)).astype(np.int8), (rng.random(10) * 0.01).astype(np.float32)
    golden.tensors = {"a.weight": torch.from_numpy(codes), "a.weight_scale": torch.from_numpy(scales)}
    golden.value("a.weight", codes.astype(np.float32) * scales[:, None])
    golden.write()


def make(ctx) -> None:
    for name, make_one in {"quanto": make_quanto, "bitnet": make_bitnet, "gemma": make_gemma, "modelopt": make_modelopt,
                           "quark": make_quark}.items():
        if ctx.wants(name):
            make_one(ctx)
