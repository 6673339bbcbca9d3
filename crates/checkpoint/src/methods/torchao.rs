//! torchao: several types under one config, distinguished by their tensors and by the file's description of
//! each.
//!
//! Source: torchao 0.18.

use super::{
    assembly::{Taker, assemble},
    fp8,
    method::{Method, Reading},
    torchao_ints,
};

pub(super) const TORCHAO: Method = Method {
    name: "torchao",
    recognized_by: "quant_method `torchao`; tensors `._weight_qdata`",
    detect: |quantized| quantized.method_is(&["torchao"]) || quantized.has_tensors(&["_weight_qdata"]),
    reading: Reading::Decoded(|quantized| {
        let mut decoded = assemble(quantized, TAKERS)?;
        decoded.sort_by_name(quantized);
        Ok(decoded)
    }),
};

/// Types in the order in which they are looked for; each takes what its tensors show to be its own.
const TAKERS: &[Taker] = &[torchao_ints::take, fp8::take];
