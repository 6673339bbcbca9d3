//! Quantized weights inside a checkpoint: recognized by method and decoded.
//!
//! An architecture sees one tensor `X.weight` (out, in) for codes, scales and zeros in the files. A new
//! method is a file here with a decoder and a row in [`METHODS`]. Methods that are recognized but not
//! supported are refused by name, and a config with an unknown method is refused too, so that codes are never
//! read as weights.
//!
//! Documentation of methods: the config key `quant_method` of transformers, and the tensor names that each
//! library writes; the rows name them.

use serde_json::Value as Json;

mod assembly;
mod auto_round;
mod awq;
mod bitnet;
mod bitsandbytes;
mod checks;
mod comfy;
mod compressed_ints;
mod compressed_tensors;
mod experts;
mod fp4;
mod fp8;
mod gate_up;
mod gemma;
mod gptq;
mod grid;
mod hqq;
mod method;
mod microscaled;
mod mlx;
mod mlx_layout;
mod modelopt;
mod modelopt_ints;
mod number_tables;
mod plain;
mod planes;
mod quantized;
mod quanto;
mod quark;
mod quark_ints;
mod refused;
mod scale_order;
mod scaled;
mod tiled;
mod torchao;
mod torchao_floats;
mod torchao_ints;
#[cfg(test)]
mod two_roundings;

pub(crate) use self::{
    comfy::decode_diffusion,
    quantized::{Decoded, ReadAs},
};
pub use self::{
    method::Method,
    refused::{REFUSED, VARIANTS},
};
use self::{method::Reading, quantized::Quantized};
use crate::{Error, Part, Tensor};

/// All recognized methods. A checkpoint has the first that it matches.
pub const METHODS: &[Method] = &[
    fp4::GPT_OSS,
    bitnet::BITNET,
    bitsandbytes::BITSANDBYTES,
    compressed_tensors::COMPRESSED_TENSORS,
    gemma::GEMMA,
    hqq::HQQ,
    mlx::MLX,
    modelopt::MODELOPT,
    quanto::QUANTO,
    quark::QUARK,
    torchao::TORCHAO,
    fp8::FP8,
    gptq::GPTQ,
    auto_round::AUTO_ROUND,
    awq::AWQ,
];

#[derive(Debug)]
pub(crate) struct Outcome {
    /// Name of their method, if they were decoded.
    pub method: Option<&'static str>,
    /// True if the quantization config needs no further handling.
    pub settled: bool,
    pub decoded: Decoded,
}

/// Decodes quantized tensors.
///
/// `config` is `config.json`, `files` the small files by name, `tensors` those of the weights files `parts`,
/// `read_as` the requested interpretation. Tensors decide: if no tensor looks quantized, a config that names
/// a method is ignored with a note.
///
/// # Errors
/// [`Error::MethodNotRead`], [`Error::UnknownMethod`], [`Error::CodesOfNoMethod`], and errors of invalid
/// codes.
pub(crate) fn decode(
    config: &Json,
    files: &[(String, Vec<u8>)],
    parts: &[Part],
    tensors: Vec<Tensor>,
    read_as: ReadAs,
) -> Result<Outcome, Error> {
    let quantized = Quantized::new(config, files, parts, &tensors)?.read_as(read_as);
    let mut rows = VARIANTS.iter().chain(METHODS).chain(REFUSED);
    let method = rows.find(|method| (method.detect)(&quantized));
    let is_plain = plain::are_plain(&tensors);
    let place = quantized.place_and_method();
    let mut outcome = Outcome { method: None, settled: true, decoded: Decoded::default() };
    match method.map(|method| (method, method.reading)) {
        Some((method, Reading::Decoded(takers) | Reading::DecodedThen(takers, _))) => {
            // Decoders read bytes in the order of a tensor's shape.
            if let Some(strided) = tensors.iter().find(|tensor| tensor.stored.is_some()) {
                return Err(Error::StridedCodes { tensor: strided.name.clone(), method: method.name });
            }
            outcome.method = Some(method.name);
            outcome.decoded = assembly::assemble(&quantized, takers)?;
            if let Reading::DecodedThen(_, finish) = method.reading {
                finish(&quantized, &mut outcome.decoded)?;
            }
        }
        _ if is_plain => outcome.decoded.tensors = tensors,
        Some((Method { name, recognized_by, .. }, Reading::Refused(advice))) => {
            return Err(Error::MethodNotRead { method: name, recognized_by, advice });
        }
        None => match place {
            Some((file, method)) => return Err(Error::UnknownMethod { file, method }),
            None => outcome.decoded.tensors = tensors,
        },
    }
    let is_decoded = outcome.decoded.tensors.iter().any(|tensor| tensor.stored.is_some());
    if let Some((place, method)) = place.filter(|_| is_plain && !is_decoded) {
        let note = format!(
            "{place} specifies `{method}`, but no tensor is quantized: all tensors are read unchanged"
        );
        outcome.decoded.notes.push(note);
    }
    mlx_layout::undo(config, parts, read_as.forms, &mut outcome.decoded)?;
    plain::check(&outcome.decoded.tensors)?;
    Ok(outcome)
}
