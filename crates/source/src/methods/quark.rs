//! Quark of AMD: several types under one config, told apart by their tensors.
//!
//! Source: amd-quark 0.13.

use super::{
    assembly::{Taker, assemble},
    fp4, fp8,
    method::{Method, Reading},
    quark_ints,
};

pub(super) const QUARK: Method = Method {
    name: "Quark",
    recognized_by: "quant_method `quark`",
    detect: |quantized| quantized.method_is(&["quark"]),
    reading: Reading::Decoded(|quantized| assemble(quantized, TAKERS)),
};

/// Types in the order in which they are looked for; each takes what its tensors show to be its own.
const TAKERS: &[Taker] = &[fp4::take, fp8::take, quark_ints::take];
