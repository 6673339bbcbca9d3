//! Quantized weights of diffusion models, as ComfyUI reads them.
//!
//! ```text
//! form           codes                    scales                                   marks
//! FP8, no scale  X.weight F8              -                                        -
//! FP8, first     X.weight F8              X.scale_weight F32                       scaled_fp8
//! FP8            X.weight F8              X.weight_scale F32, () or (out, 1)       X.comfy_quant
//! INT8           X.weight I8              X.weight_scale F32, () or (out, 1)       X.comfy_quant
//! ```
//!
//! `X.comfy_quant` holds the bytes of a JSON object whose `format` names the form (`float8_e4m3fn`, `int8_tensorwise`,
//! `nvfp4`); other keys change the meaning of codes (`convrot`). Scales of activations are left out. The value is
//! `f32(code) * f32(scale)`.
//!
//! Sources: `comfy/ops.py` and `comfy/quant_ops.py` of ComfyUI as described in `Safetensor.zig` and `DataTransform.zig` of
//! qskousen/ggufy@07c55c0.

use serde_json::Value as Json;

use super::{
    assembly::{Assembly, Taker, assemble},
    fp8,
    number_tables::Numbers,
    quantized::{Decoded, Quantized},
};
use crate::{Dtype, Error, Part, Tensor};

/// The name of the method in [`Checkpoint::method`](crate::Checkpoint::method).
const NAME: &str = "ComfyUI's quantization";
/// Endings of the marks of a matrix and of a file.
const MARK: &str = ".comfy_quant";
const FILE_MARK: &str = "scaled_fp8";
/// Endings of scales.
const SCALES: &[&str] = &[".scale_weight", ".weight_scale"];
/// Endings of scales of activations.
const OF_ACTIVATIONS: &[&str] = &[".scale_input", ".input_scale"];
/// Endings of parts of forms that are not read.
const REFUSED: &[&str] = &[".weight_scale_2", ".weight_zero_point", ".weight_codebook", ".absmax"];
/// Longest JSON of a mark.
const MAX_MARK_BYTES: u64 = 4096;

const ADVICE: &str = "convert the original checkpoint, or one in FP8 with scales";

/// Decodes the tensors of a diffusion model; the name of the method if there are codes.
///
/// # Errors
/// [`Error::MethodNotRead`] for a form that is not read, and what is wrong with codes and scales.
pub(crate) fn decode_diffusion(
    config: &Json,
    parts: &[Part],
    tensors: &[Tensor],
) -> Result<(Option<&'static str>, Decoded), Error> {
    let ends = |tensor: &Tensor, endings: &[&str]| endings.iter().any(|end| tensor.name.ends_with(end));
    let is_mark = |tensor: &Tensor| ends(tensor, &[MARK]) || is_file_mark(tensor);
    let is_float8 = |tensor: &Tensor| matches!(tensor.dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2);
    if tensors
        .iter()
        .any(|tensor| ends(tensor, REFUSED) || tensor.stored.is_none() && !tensor.dtype.is_readable())
    {
        return Err(refused());
    }
    let has_scales = tensors.iter().any(|tensor| ends(tensor, SCALES));
    if !has_scales && !tensors.iter().any(is_mark) {
        if let Some(codes) = tensors.iter().find(|tensor| tensor.is_code() && !is_float8(tensor)) {
            return Err(codes.undecoded());
        }
        return Ok((None, Decoded { tensors: tensors.to_vec(), notes: Vec::new() }));
    }
    if let Some(strided) = tensors.iter().find(|tensor| tensor.stored.is_some()) {
        return Err(Error::StridedCodes { tensor: strided.name.clone(), method: NAME });
    }
    let quantized = Quantized::new(config, &[], parts, tensors)?;
    const TAKERS: &[Taker] = &[take_marks, take_codes];
    Ok((Some(NAME), assemble(&quantized, TAKERS)?))
}

fn is_file_mark(tensor: &Tensor) -> bool {
    tensor.ending() == FILE_MARK
}

fn refused() -> Error {
    Error::MethodNotRead {
        method: "ComfyUI's forms with several scales or packed codes (nvfp4, mxfp8, int4)",
        recognized_by: "tensors `.comfy_quant`, `.weight_scale_2`, packed codes",
        advice: ADVICE,
    }
}

/// Reads marks, and leaves out what describes activations.
fn take_marks(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for tensor in assembly.left() {
        if is_file_mark(tensor) {
            assembly.used(tensor);
        } else if OF_ACTIVATIONS.iter().any(|end| tensor.name.ends_with(end)) {
            assembly.leave(tensor, "the quantization of activations is not stored in a GGUF file");
        } else if tensor.name.ends_with(MARK) {
            check_mark(tensor, assembly.quantized.parts)?;
            assembly.used(tensor);
        }
    }
    Ok(())
}

/// Refuses a mark of a form that is not read.
fn check_mark(tensor: &Tensor, parts: &[Part]) -> Result<(), Error> {
    let form = |found: String| Error::JsonForm {
        file: tensor.name.clone(),
        expected: "a JSON object with the `format` of the weights".to_owned(),
        found,
    };
    if tensor.dtype != Dtype::U8 || tensor.n_bytes() > MAX_MARK_BYTES {
        return Err(form(format!("{} of {} bytes", tensor.dtype, tensor.n_bytes())));
    }
    let bytes = tensor.span();
    let mark: Json = serde_json::from_slice(bytes.of(parts)?).map_err(|error| form(error.to_string()))?;
    let format = mark.get("format").and_then(Json::as_str).ok_or_else(|| form(mark.to_string()))?;
    let known = matches!(format, "float8_e4m3fn" | "float8_e5m2" | "int8_tensorwise");
    // `full_precision_matrix_mult` and the like concern the computation, not the values.
    let changes = ["convrot", "rotation", "hadamard", "group_size", "codebook"];
    let is_changed = |key: &&str| mark.get(key).is_some_and(|value| !value.is_null() && value != false);
    match known && !changes.iter().any(is_changed) {
        true => Ok(()),
        false => Err(refused()),
    }
}

/// Takes codes with their scales.
fn take_codes(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    fp8::take_where(assembly, |codes| match codes.dtype {
        Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::I8 => Numbers::of(codes.dtype),
        _ => None,
    })
}
