"""Makes golden/dialects/mx-*: microscaled floats in the spellings of ModelOpt and AutoRound.

mx-modelopt: MXFP8, W4A8_MXFP4_FP8 and W4A8_NVFP4_FP8 in one file, codes and scales drawn, values by the formula in numpy.
mx-autoround-*: packed by the module that auto-round saves (`QuantLinear` of `qlinear_fp.py`), values by the formula.
"""

import sys
from unittest.mock import MagicMock

import numpy as np
import torch

from fp4_values import E2M1, blocks, codes, e4m3, e8m0, exponents, nibbles, plain, reference, spread, ue4m3
from weight_forms import Golden

F = np.float32


def add(golden: Golden, module: str, parts: dict, values: np.ndarray) -> None:
    golden.tensors |= {f"{module}.{key}": part for key, part in parts.items()}
    golden.value(f"{module}.weight", np.ascontiguousarray(values, F))


def add_blocks(golden: Golden, module: str, code, scale) -> None:
    """What the reference's functions make of codes of 4 bits."""
    name = f"{module}.weight"
    if scale.dtype == torch.float8_e4m3fn:
        if code.shape[1] % 32 == 0:
            blocks(golden, name, "nvfp4", reference()._nvfp4_pack(code, scale)[0])
    else:
        blocks(golden, name, "mxfp4", reference().repack_mxfp4_blocks(code, scale))


def make_modelopt(ctx) -> None:
    """nvidia-modelopt 0.47 (export/quant_utils.py, quantization/qtensor/)."""
    torch.manual_seed(25)
    algorithms = {f"layers.{i}.{name}_proj": dict(quant_algo=algo) for i in range(2)
                  for name, algo in dict(q="MXFP8", k="W4A8_MXFP4_FP8", v="W4A8_NVFP4_FP8").items()}
    golden = Golden(ctx, "mx-modelopt", dict(quant_method="modelopt", quant_algo="MIXED_PRECISION",
                                             quantized_layers=algorithms))
    numbers = torch.tensor([code for code in range(256) if code & 127 != 127] * 16, dtype=torch.uint8)
    for i, columns in enumerate((96, 64)):
        code = numbers[:24 * columns].reshape(24, columns).view(torch.float8_e4m3fn)
        scale = exponents(24, columns // 32).clamp(max=244)
        add(golden, f"layers.{i}.q_proj", dict(weight=code, weight_scale=scale),
            code.float().numpy() * spread(e8m0(scale), 32))
        code, scale = codes(24, columns // 2), exponents(24, columns // 32)
        add(golden, f"layers.{i}.k_proj", dict(weight=code, weight_scale=scale, input_scale=torch.tensor(0.25)),
            E2M1[nibbles(code)] * spread(e8m0(scale), 32))
        add_blocks(golden, f"layers.{i}.k_proj", code, scale)
        code, scale, scale_2 = codes(24, columns // 2), ue4m3(24, columns // 16), torch.tensor(0.0071)
        add(golden, f"layers.{i}.v_proj", dict(weight=code, weight_scale=scale, weight_scale_2=scale_2,
                                               input_scale=torch.tensor(0.5)),
            E2M1[nibbles(code)] * spread(e4m3(scale) * scale_2.numpy(), 16))
        add_blocks(golden, f"layers.{i}.v_proj", code, scale)
    plain(golden)
    golden.write()


def auto_round(name: str, bits: int, data_type: str, group: int, act_data_type: str):
    def make_one(ctx) -> None:
        # Packing needs no data sets, which auto-round imports.
        sys.modules.setdefault("datasets", MagicMock(__spec__=None))
        from auto_round.export.export_to_autoround.qlinear_fp import QuantLinear
        torch.manual_seed(26)
        golden = Golden(ctx, name, dict(
            quant_method="auto-round", packing_format="auto_round:llm_compressor", bits=bits, group_size=group, sym=True,
            data_type=data_type, act_bits=bits, act_data_type=act_data_type, act_group_size=group, act_sym=True))
        for i, (rows, columns) in enumerate(((32, 96), (64, 64))):
            linear = torch.nn.Linear(columns, rows, bias=i == 0, dtype=torch.bfloat16)
            weight = linear.weight.data
            weight[1] = 0
            weight[2, :32] = -0.0
            most = weight.float().reshape(rows, -1, group).abs().amax(-1)
            packed = QuantLinear(bits, group, columns, rows, i == 0, weight_dtype=weight.dtype, sym=True,
                                 data_type=data_type, act_bits=bits, act_data_type=act_data_type)
            if data_type.startswith("nv"):
                # As `nv_fp4` of auto_round/data_type/nvfp.py has them: 448 * 6 / the largest, and 8-bit scales.
                factor = 448 * 6 / most.max()
                scales = (most / 6 * factor).clamp(max=448).to(torch.float8_e4m3fn).float()
                more = dict(global_scale=factor, input_global_scale=torch.tensor([77.0]))
            else:
                largest = 448 if bits == 8 else 6
                scales, more = torch.ceil(torch.log2(most.clamp(min=2.0 ** -120) / largest)), {}
            packed.pack(linear, scales, **more)
            state = packed.state_dict()
            code = state["weight" if bits == 8 else "weight_packed"]
            scale = state["weight_scale"]
            if data_type.startswith("nv"):
                factor = (F(1) / state["weight_global_scale"].float().numpy()).astype(F)
                values = E2M1[nibbles(code)] * spread((e4m3(scale) * factor).astype(F), 16)
            elif bits == 8:
                values = code.float().numpy() * spread(e8m0(scale), 32)
            else:
                values = E2M1[nibbles(code)] * spread(e8m0(scale), 32)
            module = f"layers.{i}.q_proj"
            add(golden, module, state, values)
            if bits == 4:
                add_blocks(golden, module, code, scale)
        plain(golden)
        golden.write()
    return make_one


MAKERS = {
    "mx-modelopt": make_modelopt,
    "mx-autoround-nvfp4": auto_round("mx-autoround-nvfp4", 4, "nv_fp", 16, "nv_fp4_with_static_gs"),
    "mx-autoround-mxfp4": auto_round("mx-autoround-mxfp4", 4, "mx_fp", 32, "mx_fp_rceil"),
    "mx-autoround-mxfp8": auto_round("mx-autoround-mxfp8", 8, "mx_fp", 32, "mx_fp_rceil"),
}


def make(ctx) -> None:
    for name, make_one in MAKERS.items():
        if ctx.wants(name):
            make_one(ctx)
