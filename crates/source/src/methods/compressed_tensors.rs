//! compressed-tensors, which llm-compressor writes: several formats under one config, told apart by their tensors.
//!
//! ```text
//! format                              tensors of a module                                      taker
//! float-quantized, naive-quantized    weight F8, weight_scale                                  fp8
//! ```
//!
//! Source: compressed-tensors 0.20, `compressors/`.

use serde_json::Value as Json;

use super::{
    assembly::{Taker, assemble},
    fp8,
    method::{Method, Reading},
    quantized::{Decoded, Quantized},
};
use crate::Error;

pub(super) const COMPRESSED_TENSORS: Method = Method {
    name: "compressed-tensors",
    recognized_by: "quant_method `compressed-tensors`; tensors `.weight_packed` and `.weight_scale`",
    detect: |quantized| {
        quantized.method_is(&["compressed-tensors"])
            || quantized.looks_like(&["weight_packed", "weight_scale"])
    },
    reading: Reading::Decoded(decode),
};

/// Formats in the order in which they are looked for; each takes what its tensors show to be its own.
const TAKERS: &[Taker] = &[fp8::take];

/// Formats that leave zeros out, and are not read.
const SPARSE: &[&str] = &["marlin-24", "sparse-24-bitmask", "sparse-bitmask"];

fn decode(quantized: &Quantized<'_>) -> Result<Decoded, Error> {
    let key = |path: &[&str]| path.iter().try_fold(quantized.config()?, |value, key| value.get(key));
    let refused = |method, recognized_by| Err(Error::MethodNotRead { method, recognized_by, advice: ADVICE });
    let is_sparse =
        |path: &[&str]| key(path).and_then(Json::as_str).is_some_and(|name| SPARSE.contains(&name));
    if is_sparse(&["format"]) || is_sparse(&["sparsity_config", "format"]) {
        return refused(
            "sparse compressed-tensors",
            "`format` `marlin-24`, `sparse-24-bitmask` or `sparse-bitmask`",
        );
    }
    // A rotation belongs to the arithmetic of the model, not to the weights alone.
    let transforms = key(&["transform_config"]).and_then(Json::as_object);
    if transforms.is_some_and(|transforms| transforms.values().any(|value| !is_empty(value))) {
        return refused("compressed-tensors with transforms", "`transform_config`");
    }
    assemble(quantized, TAKERS)
}

const ADVICE: &str = "convert the checkpoint that these weights were quantized from";

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(object) => object.is_empty(),
        Json::Array(array) => array.is_empty(),
        _ => false,
    }
}
