//! Quantized weights inside a checkpoint: recognized by method, decoded to the tensors that they stand for.
//!
//! An architecture sees one tensor `X.weight` (out, in) where the files hold codes, scales and zeros of it. A new method
//! is a file here with a decoder and a row in [`METHODS`]; what is recognized and not read is refused by name, and a
//! config of a method that nobody knows is refused too, so that codes are never taken for weights.
//!
//! Where methods are documented: the config key `quant_method` of transformers, and the tensor names that each library
//! writes; the rows name them.

use serde_json::Value as Json;

mod assembly;
mod compressed_tensors;
mod fp8;
mod grid;
mod method;
mod modelopt;
mod number_tables;
mod quantized;
mod quanto;
mod quark;
mod refused;
mod scaled;
mod torchao;

pub use self::method::Method;
use self::{
    method::Reading,
    quantized::{Decoded, Quantized},
    refused::REFUSED,
};
use crate::{Error, Part, Tensor};

/// Every method that is recognized and read. The first that a checkpoint matches is its method.
pub const METHODS: &[Method] = &[
    Method {
        name: "MXFP4 of gpt-oss",
        recognized_by: "quant_method `mxfp4`; tensors `_blocks` and `_scales`",
        detect: |quantized| quantized.method_is(&["mxfp4"]),
        reading: Reading::Architecture,
    },
    compressed_tensors::COMPRESSED_TENSORS,
    modelopt::MODELOPT,
    quanto::QUANTO,
    quark::QUARK,
    torchao::TORCHAO,
    fp8::FP8,
];

/// What becomes of a checkpoint's tensors: the name of their method where they were decoded, and what they decode to.
///
/// `config` is `config.json`, `files` the small files by name, `tensors` those of the weights files `parts`.
///
/// # Errors
/// [`Error::MethodNotRead`], [`Error::UnknownMethod`], and what is wrong with the codes.
pub(crate) fn decode(
    config: &Json,
    files: &[(String, Vec<u8>)],
    parts: &[Part],
    tensors: Vec<Tensor>,
) -> Result<(Option<&'static str>, Decoded), Error> {
    let quantized = Quantized::new(config, files, parts, &tensors)?;
    let plain = |tensors| Ok((None, Decoded { tensors, notes: Vec::new() }));
    let Some(method) = METHODS.iter().chain(REFUSED).find(|method| (method.detect)(&quantized)) else {
        return match quantized.config_of_unknown_method() {
            Some((file, method)) => Err(Error::UnknownMethod { file, method }),
            None => plain(tensors),
        };
    };
    match method.reading {
        Reading::Architecture => plain(tensors),
        Reading::Decoded(decoder) => Ok((Some(method.name), decoder(&quantized)?)),
        Reading::Refused(advice) => {
            Err(Error::MethodNotRead { method: method.name, recognized_by: method.recognized_by, advice })
        }
    }
}
