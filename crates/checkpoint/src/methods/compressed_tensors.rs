//! compressed-tensors, written by llm-compressor: several formats under one config, distinguished by their
//! tensors.
//!
//! ```text
//! format                              tensors of a module                                      taker
//! float-quantized, naive-quantized    weight F8, weight_scale                                  fp8
//! pack-quantized                      weight_packed I32, weight_shape, weight_scale            compressed_ints
//! int-quantized, naive-quantized      weight I8, weight_scale                                  compressed_ints
//! mxfp8-quantized                     weight F8, weight_scale U8                               fp8
//! nvfp4-pack-quantized                weight_packed U8, weight_scale F8, weight_global_scale   fp4
//! mxfp4-, mxfp6-pack-quantized        weight_packed U8, weight_scale U8                        fp4
//! ```
//!
//! Source: compressed-tensors 0.20, `compressors/`.

use super::{
    compressed_ints, fp4, fp8,
    method::{Method, Reading},
};

pub(super) const COMPRESSED_TENSORS: Method = Method {
    name: "compressed-tensors",
    recognized_by: "quant_method `compressed-tensors`; tensors `.weight_packed` and `.weight_scale`",
    detect: |quantized| {
        quantized.method_is(&["compressed-tensors"])
            || quantized.has_tensors(&["weight_packed", "weight_scale"])
    },
    reading: Reading::Decoded(&[
        compressed_ints::take_packed,
        compressed_ints::take_bytes,
        fp4::take,
        fp8::take,
    ]),
};
