//! optimum-quanto: several types under one config, told apart by their tensors. Of these, floats of 8 bits are read.
//!
//! Source: optimum-quanto 0.2.7.

use super::{
    assembly::{Taker, assemble},
    fp8,
    method::{Method, Reading},
};

pub(super) const QUANTO: Method = Method {
    name: "quanto",
    recognized_by: "quant_method `quanto`; tensors `._data` and `._scale`",
    detect: |quantized| quantized.method_is(&["quanto"]) || quantized.looks_like(&["_data", "_scale"]),
    reading: Reading::Decoded(|quantized| assemble(quantized, TAKERS)),
};

/// Types in the order in which they are looked for; each takes what its tensors show to be its own.
const TAKERS: &[Taker] = &[fp8::take];
