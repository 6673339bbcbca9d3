//! ModelOpt of NVIDIA: several algorithms under one config, distinguished by their tensors.
//!
//! ```text
//! quant_algo                                       tensors of a module                      taker
//! NVFP4, W4A16_NVFP4, NVFP4_AWQ                    weight U8, weight_scale F8 (16)           nvfp4
//! FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO        weight F8 (or its bytes), weight_scale   floats
//! W4A16_AWQ                                        weight U8, weight_scale [out, in / g]      integers
//! W8A16, W8A8_SQ_PER_CHANNEL                       weight I8, weight_scale [out]              integers
//! ```
//!
//! The config is `quantization_config` or `hf_quant_config.json`, which names no method. Source:
//! nvidia-modelopt 0.47, `torch/export/`.

use super::{
    assembly::Assembly,
    fp4, fp8,
    method::{Method, Reading},
    modelopt_ints,
    number_tables::Numbers,
    quantized::Quantized,
};
use crate::{Dtype, Error, Tensor};

pub(super) const MODELOPT: Method = Method {
    name: "ModelOpt",
    recognized_by: "quant_method `modelopt`; `quant_algo` in `hf_quant_config.json`; tensors `.weight_scale_2`",
    detect: |quantized| {
        let has_algorithm = || quantized.value(&["quant_algo"]).is_some();
        quantized.method_is(&["modelopt", "modelopt_fp4"])
            || quantized.method().is_none() && has_algorithm()
            || quantized.has_tensors(&["weight_scale_2"])
    },
    reading: Reading::Decoded(&[nvfp4, floats, modelopt_ints::take]),
};

/// Takes 4-bit floats. Activations of `W4A16_NVFP4` keep more than 4 bits.
fn nvfp4(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let quantized = assembly.quantized;
    fp4::take_with(assembly, |codes| algorithm(quantized, &codes.name) == "W4A16_NVFP4")
}

/// Takes 8-bit floats, which may be stored as untyped bytes.
fn floats(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let quantized = assembly.quantized;
    fp8::take_where(assembly, |codes: &Tensor| match codes.dtype {
        Dtype::F8_E4M3 | Dtype::F8_E5M2 => Numbers::of(codes.dtype),
        Dtype::U8 | Dtype::I8 if algorithm(quantized, &codes.name).starts_with("FP8") => Some(Numbers::E4M3),
        _ => None,
    })
}

/// Algorithm of a tensor's module: its own if algorithms are mixed, or else the general one.
fn algorithm<'a>(quantized: &'a Quantized<'_>, tensor: &str) -> &'a str {
    let module = tensor.rsplit_once('.').map_or("", |(module, _)| module);
    let own = quantized.text(&["quantized_layers", module, "quant_algo"]);
    own.or_else(|| quantized.text(&["quant_algo"])).unwrap_or_default()
}
