//! torchao: several types under one config, distinguished by their tensors and by the file's description of
//! each.
//!
//! Source: torchao 0.18.

use super::{
    fp8,
    method::{Method, Reading},
    quantized::sort_by_name,
    torchao_ints,
};

pub(super) const TORCHAO: Method = Method {
    name: "torchao",
    recognized_by: "quant_method `torchao`; tensors `._weight_qdata`",
    detect: |quantized| quantized.method_is(&["torchao"]) || quantized.has_tensors(&["_weight_qdata"]),
    reading: Reading::DecodedThen(&[torchao_ints::take, fp8::take], sort_by_name),
};
