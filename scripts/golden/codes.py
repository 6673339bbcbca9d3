"""Makes golden/codes/: modules of integer codes as their owners' programs pack them, and the values that these give.

A folder has config.json with a quantization config, model.safetensors, and expected.json: for each decoded tensor its shape,
the digest of its values in f32 (`f32`: `(q - z) * s` of the codes, zeros and scales that were packed), and, where the owner's
library decodes it too, that of the library's values with their type (`library`).

Inputs: auto_gptq, autoawq, compressed_tensors, compressed_tensors_old (folders with the packages), gptqmodel (its unpacked
source; a file of it that packs planes is run alone). What has no library that runs here is packed by `stream`, from the
layouts that the owners document.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from lib import sha256

OUT, IN = 32, 160
RNG = np.random.default_rng(14)
DTYPES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}


def stream(codes: np.ndarray, bits: int, whole: bool = False) -> np.ndarray:
    """Each row of codes as words of 32 bits, low bits first; with `whole`, no code crosses into the next word."""
    per_word = 32 // bits
    rows = []
    for row in codes:
        if whole:
            words = [sum(int(code) << (bits * k) for k, code in enumerate(row[i:i + per_word]))
                     for i in range(0, len(row), per_word)]
        else:
            number, n = sum(int(code) << (bits * k) for k, code in enumerate(row)), -(-len(row) * bits // 32)
            words = [number >> (32 * k) & 0xFFFFFFFF for k in range(n)]
        rows.append(words)
    return np.array(rows, np.uint64).astype(np.uint32).view(np.int32)


class Module:
    """Random codes (out, in), zeros and scales (out, groups), and the group of each input."""

    def __init__(self, bits: int, group: int, order: bool = False, zeros=None, dtype=torch.float16, out=OUT, columns=IN,
                 signs: bool = False):
        self.bits, self.group, self.dtype = bits, group, dtype
        n_groups = -(-columns // group)
        low, high = zeros or (1, 2**bits)
        self.q = RNG.integers(0, 2**bits, (out, columns))
        # A group of equal values, and both ends of the range.
        self.q[0, :group] = 2**bits - 1
        self.q[1, :group] = 0
        self.z = RNG.integers(low, high, (out, n_groups))
        self.z[2, 0], self.z[3, 0] = low, high - 1
        scales = RNG.uniform(0.5, 1.5, (out, n_groups)) * 2.0 ** RNG.integers(-12, -4, (out, n_groups))
        if signs:
            scales *= RNG.choice([-1, 1], (out, n_groups))
        self.s = torch.tensor(scales).to(dtype)
        # Below 2^-17 half of all bf16 numbers are no f16 numbers.
        if dtype != torch.float16:
            self.s[4, 0] = 1.2e-7
        self.g = np.arange(columns) // group
        if order:
            RNG.shuffle(self.g)

    def values(self) -> np.ndarray:
        s = self.s.float().numpy()
        return (self.q.astype(np.float32) - self.z[:, self.g].astype(np.float32)) * s[:, self.g]


class Folder:
    """One checkpoint."""

    def __init__(self, name: str, **config):
        self.name, self.config, self.tensors, self.expected = name, config, {}, {}

    def add(self, stem: str, tensors: dict, values: np.ndarray, library: torch.Tensor = None) -> None:
        assert values.dtype == np.float32
        for ending, tensor in tensors.items():
            tensor = torch.from_numpy(np.ascontiguousarray(tensor)) if isinstance(tensor, np.ndarray) else tensor
            self.tensors[stem + ending] = tensor.contiguous().clone()
        expected = dict(shape=list(values.shape), f32=sha256(values.tobytes()))
        if library is not None:
            rounded = torch.from_numpy(values).to(library.dtype)
            print(f"{self.name}: {stem}: {'equal' if torch.equal(rounded, library) else 'DIFFERS'} in {library.dtype}")
            raw = library.contiguous().view(torch.int16 if library.dtype.itemsize == 2 else torch.int32).numpy().tobytes()
            expected["library"] = [DTYPES[library.dtype], sha256(raw)]
        self.expected[stem + ".weight"] = expected

    def write(self, golden: Path) -> None:
        folder = golden / "codes" / self.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(dict(quantization_config=self.config), indent=1, sort_keys=True) + "\n")
        (folder / "expected.json").write_text(json.dumps(self.expected, indent=1, sort_keys=True) + "\n")
        save_file(dict(sorted(self.tensors.items())), folder / "model.safetensors", {"format": "pt"})


def words(tensor: torch.Tensor) -> np.ndarray:
    return tensor.numpy().astype(np.int32)


def columns_of(module: Module, zeros: np.ndarray, g_idx: bool = True) -> dict:
    """The tensors of a GPTQ module packed by `stream`; `zeros` as they are stored."""
    tensors = {".qweight": stream(module.q, module.bits).T, ".qzeros": stream(zeros.T, module.bits), ".scales": module.s.T}
    return tensors | ({".g_idx": module.g.astype(np.int32)} if g_idx else {})


def gptq(ctx, golden: Path) -> None:
    sys.path.insert(0, str(ctx.inputs["auto_gptq"]))
    spec = importlib.util.spec_from_file_location(
        "qlinear_cuda", Path(ctx.inputs["auto_gptq"]) / "auto_gptq/nn_modules/qlinear/qlinear_cuda.py")
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    # The config's bits and group size are those of one module only: the others are overrides, which tensors show.
    folder = Folder("gptq", quant_method="gptq", bits=4, group_size=64, sym=False, desc_act=True, checkpoint_format="gptq",
                    dynamic={"+:.*g32.*": {"group_size": 32}, "-:plain": {}})
    for bits in (2, 3, 4, 8):
        for order in (False, True):
            for group, dtype in ((32, torch.float16), (64, torch.bfloat16 if bits == 4 else torch.float32), (IN, torch.float16)):
                module = Module(bits, group, order and group != IN, dtype=dtype)
                linear = torch.nn.Linear(IN, OUT, bias=True, dtype=torch.float64)
                linear.weight.data = torch.from_numpy((module.q - module.z[:, module.g]) * module.s.double().numpy()[:, module.g])
                packer = library.QuantLinear(bits, group, IN, OUT, True, weight_dtype=dtype)
                packer.pack(linear, module.s.double(), torch.from_numpy(module.z).double(), torch.from_numpy(module.g).int())
                packer.scales, packer.bias = packer.scales.to(dtype), packer.bias.to(dtype)
                bias, packer.bias = packer.bias, None
                decoded = packer(torch.eye(IN, dtype=dtype)).T.contiguous()
                stem = f"m.b{bits}-g{group}{'-order' if order else ''}"
                folder.add(stem, {".qweight": packer.qweight, ".qzeros": packer.qzeros, ".scales": packer.scales,
                                  ".g_idx": packer.g_idx, ".bias": bias}, module.values(), decoded)
    folder.tensors["m.plain.weight"] = torch.ones(4, 4, dtype=torch.bfloat16)
    folder.write(golden)

    folder = Folder("gptq-v2", method="gptq", bits=4, group_size=32, sym=False, format="gptq_v2")
    for bits in (2, 3, 4, 8):
        module = Module(bits, 32, True, zeros=(0, 2**bits))
        folder.add(f"m.b{bits}", columns_of(module, module.z), module.values())
    folder.write(golden)

    # GPTQModel takes one from whole words with borrow: the zero 0 lets the field above lose one.
    folder = Folder("gptq-by-word", quant_method="gptq", bits=4, group_size=32, sym=False, checkpoint_format="gptq",
                    meta=dict(quantizer=["gptqmodel:2.1.0"]))
    for bits, ones in ((2, 0x55555555), (4, 0x11111111), (8, 0x01010101)):
        module = Module(bits, 32, zeros=(0, 2**bits))
        module.z[0, :] = 0
        tensors = columns_of(module, module.z)
        tensors[".qzeros"] = (tensors[".qzeros"].view(np.uint32) - np.uint32(ones)).view(np.int32)
        folder.add(f"m.b{bits}", tensors, module.values())
    folder.write(golden)

    # Of others a field of all ones is one less than 0.
    folder = Folder("gptq-by-field", quant_method="gptq", bits=4, group_size=32, sym=False)
    for bits in (2, 3, 4, 8):
        module = Module(bits, 32, zeros=(0, 2**bits))
        folder.add(f"m.b{bits}", columns_of(module, (module.z - 1) % 2**bits), module.values())
    folder.write(golden)

    spec = importlib.util.spec_from_file_location(
        "planar", Path(ctx.inputs["gptqmodel"]) / "gptqmodel/utils/planar_packing.py")
    planar = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(planar)
    folder = Folder("gptq-planes", quant_method="gptq", bits=5, group_size=32, sym=False, checkpoint_format="gptq_p")
    for bits in range(2, 9):
        module = Module(bits, 32, bits == 6, zeros=(0, 2**bits))
        folder.add(f"m.b{bits}", {".qweight": planar.planar_pack_rows(torch.from_numpy(module.q.T.copy()), bits).to(torch.int32),
                                  ".qzeros": planar.planar_pack_cols(torch.from_numpy(module.z.T.copy()), bits).to(torch.int32),
                                  ".scales": module.s.T, ".g_idx": module.g.astype(np.int32)}, module.values())
    folder.write(golden)


def auto_round(golden: Path) -> None:
    folder = Folder("auto-round", quant_method="auto-round", bits=4, group_size=64, sym=False,
                    packing_format="auto_round:gptqmodel", extra_config={"m.b8": {"bits": 8, "group_size": 32}})
    for bits in range(2, 9):
        module = Module(bits, 32 if bits == 8 else 64, zeros=(0, 2**bits))
        folder.add(f"m.b{bits}", columns_of(module, module.z, g_idx=bits == 4), module.values())
    folder.write(golden)
    folder = Folder("auto-round-gptq", quant_method="intel/auto-round", bits=4, group_size=64, sym=True,
                    packing_format="auto_round:auto_gptq")
    for bits in (2, 3, 4, 8):
        module = Module(bits, 64, zeros=(0, 2**bits))
        stored = np.maximum(module.z - 1, 0)
        module.z = stored + 1
        folder.add(f"m.b{bits}", columns_of(module, stored, g_idx=False), module.values())
    folder.write(golden)


def awq(ctx, golden: Path) -> None:
    root = Path(ctx.inputs["autoawq"]) / "awq"
    # Packages without what they import: kernels, models.
    for name in ("awq", "awq.utils", "awq.modules", "awq.modules.linear"):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    gemm, gemv = importlib.import_module("awq.modules.linear.gemm"), importlib.import_module("awq.modules.linear.gemv")
    packing = importlib.import_module("awq.utils.packing_utils")

    def linear_of(module: Module) -> torch.nn.Linear:
        linear = torch.nn.Linear(module.q.shape[1], module.q.shape[0], bias=False, dtype=torch.float64)
        linear.weight.data = torch.from_numpy((module.q - module.z[:, module.g]) * module.s.double().numpy()[:, module.g])
        return linear

    def packed(module: Module) -> dict:
        made = gemm.WQLinear_GEMM.from_linear(linear_of(module), 4, module.group, False, module.s.T.double(),
                                              torch.from_numpy(module.z.T.copy()).double())
        return {".qweight": made.qweight, ".qzeros": made.qzeros, ".scales": module.s.T.contiguous()}

    folder = Folder("awq", quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm")
    rounded = Folder("auto-round-awq", quant_method="auto-round", bits=4, group_size=32, sym=False,
                     packing_format="auto_round:auto_awq")
    for group in (32, 80, IN):
        module = Module(4, group, zeros=(0, 16))
        tensors = packed(module)
        decoded = packing.dequantize_gemm(tensors[".qweight"], tensors[".qzeros"], tensors[".scales"], 4, group).T.contiguous()
        folder.add(f"m.g{group}", tensors, module.values(), decoded)
        rounded.add(f"m.g{group}", tensors, module.values())
    folder.write(golden)
    rounded.write(golden)

    folder = Folder("awq-gemv", quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemv")
    module = Module(4, 32, zeros=(0, 16), out=40)
    made = gemv.WQLinear_GEMV.from_linear(linear_of(module), 4, 32, False, module.s, torch.from_numpy(module.z).double())
    folder.add("m.g32", {".qweight": made.qweight, ".qzeros": made.qzeros, ".scales": made.scales}, module.values())
    folder.write(golden)

    # The activation between the two is divided by its scales: the columns of the second matrix are.
    folder = Folder("awq-act", quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm")
    first, second = Module(4, 32, zeros=(0, 16), out=96, columns=64), Module(4, 32, zeros=(0, 16), out=64, columns=96)
    folder.add("h.0.mlp.fc_in", packed(first), first.values())
    scales = torch.tensor(RNG.uniform(0.2, 3.0, 96)).half()
    folder.add("h.0.mlp.fc_out", packed(second), second.values() / scales.float().numpy())
    folder.tensors["h.0.mlp.act.scales"] = scales
    folder.write(golden)


def compressed(ctx, golden: Path, key: str, name: str, act_order: bool) -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == "compressed_tensors"]:
        del sys.modules[module]
    sys.path.insert(0, str(ctx.inputs[key]))
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    config = dict(quant_method="compressed-tensors", format="pack-quantized", quantization_status="compressed", ignore=["lm_head"],
                  version=importlib.metadata.version("compressed-tensors"))
    folders = {}

    def add(folder: str, stem: str, module: Module, form: str, strategy: str, symmetric: bool, order: bool = False):
        args = QuantizationArgs(num_bits=module.bits, type="int", symmetric=symmetric, strategy=strategy,
                                group_size=module.group if strategy == "group" else None, actorder="group" if order else None)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        half = 2**(module.bits - 1)
        # The library's codes and zeros are signed.
        zeros = torch.from_numpy(module.z - half).to(torch.int8)
        if symmetric:
            module.z[:] = half
            zeros = torch.zeros_like(zeros)
        if strategy == "tensor":
            module.s[:], module.z[:] = module.s[0, 0], module.z[0, 0]
            scale, zeros = module.s[0], zeros[0]
        else:
            scale = module.s
        values = module.values()
        tensors = {"weight": torch.from_numpy(values.astype(np.float64)).double(), "weight_scale": scale,
                   "weight_zero_point": zeros}
        exact = (module.q - module.z[:, module.g]) * module.s.double().numpy()[:, module.g]
        tensors["weight"] = torch.from_numpy(exact)
        if order:
            tensors["weight_g_idx"] = torch.from_numpy(module.g).int()
        compressor = BaseCompressor.get_value_from_registry(form)
        tensors = compressor.compress(tensors, scheme)
        decoded = compressor.decompress(dict(tensors), scheme)["weight"]
        groups = folders.setdefault(folder, (Folder(folder, **(config | dict(format=form))), {}))
        groups[1][f"{stem}"] = dict(targets=[f"re:m\\.{stem}"], weights=dict(
            num_bits=module.bits, type="int", symmetric=symmetric, strategy=strategy, group_size=args.group_size))
        groups[0].add(f"m.{stem}", {f".{k}": v for k, v in tensors.items()}, values, decoded)

    def full(bits):
        return dict(zeros=(0, 2**bits))

    # Where codes never cross words, both versions write the same.
    for bits in (3, 5, 6, 7) if act_order else range(2, 9):
        dtype = [torch.bfloat16, torch.float16, torch.float32][bits % 3]
        add(name, f"b{bits}-group", Module(bits, 32, dtype=dtype, out=40), "pack-quantized", "group", True)
        add(name, f"b{bits}-zeros", Module(bits, 32, dtype=torch.bfloat16, out=37, **full(bits)), "pack-quantized", "group", False)
        add(name, f"b{bits}-channel", Module(bits, 150, dtype=torch.float16, out=37, columns=150, **full(bits)), "pack-quantized",
            "channel", False)
    add(name, "b4-tensor", Module(4, IN, dtype=torch.bfloat16, out=40), "pack-quantized", "tensor", True)
    add(name, "b4-tensor-zeros", Module(4, IN, dtype=torch.bfloat16, out=40, **full(4)), "pack-quantized", "tensor", False)
    if act_order:
        add(name, "b4-order", Module(4, 32, True, dtype=torch.bfloat16, out=40), "pack-quantized", "group", True, True)
        add(name, "b6-order", Module(6, 40, True, dtype=torch.float16, out=40, **full(6)), "pack-quantized", "group", False, True)
    else:
        for strategy, group in (("channel", IN), ("group", 32), ("tensor", IN)):
            for symmetric in (True, False):
                if strategy == "tensor" and not symmetric:
                    continue
                stem = f"{strategy}{'' if symmetric else '-zeros'}"
                add("int-quantized", stem, Module(8, group, dtype=torch.bfloat16, out=40, **full(8)), "int-quantized", strategy,
                    symmetric)
    for folder, groups in folders.values():
        folder.config["config_groups"] = groups
        folder.write(golden)
    sys.path.remove(str(ctx.inputs[key]))


def experts(golden: Path) -> None:
    """Stacked experts, packed slice by slice; what a version before 0.18 wrote of a -1 in `weight_g_idx`."""
    groups = {"group_0": dict(targets=["Linear"], weights=dict(num_bits=3, type="int", symmetric=False, strategy="group", group_size=32))}
    folder = Folder("packed-experts", quant_method="compressed-tensors", format="pack-quantized", config_groups=groups)
    modules = [Module(3, 32, dtype=torch.bfloat16, out=37, zeros=(0, 8)) for _ in range(3)]
    folder.add("mlp.experts", {
        ".weight_packed": np.stack([stream(m.q, 3) for m in modules]), ".weight_scale": torch.stack([m.s for m in modules]),
        ".weight_shape": np.array([3, 37, IN], np.int64),
        ".weight_zero_point": np.stack([stream(m.z.T, 3).T for m in modules])}, np.stack([m.values() for m in modules]))
    module = Module(3, 32, dtype=torch.bfloat16, out=37)
    module.z[:] = 4
    folder.add("unused", {".weight_packed": stream(module.q, 3, True), ".weight_scale": module.s,
                          ".weight_shape": np.array([37, IN], np.int32), ".weight_g_idx": np.full(IN, -1, np.int32)},
               module.values())
    folder.write(golden)


def make(ctx) -> None:
    gptq(ctx, ctx.golden)
    auto_round(ctx.golden)
    awq(ctx, ctx.golden)
    experts(ctx.golden)
    compressed(ctx, ctx.golden, "compressed_tensors", "packed", False)
    compressed(ctx, ctx.golden, "compressed_tensors_old", "packed-old", True)
