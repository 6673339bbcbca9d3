//! Floats of 4 and 6 bits with scales of groups, in all the spellings that libraries write.
//!
//! ```text
//! who                       codes                             scales of groups         scale of the tensor
//! gpt-oss                   X_blocks U8 (.., in / 32, 16)     X_scales U8              -
//! compressed-tensors        X.weight_packed U8                X.weight_scale           X.weight_global_scale, divides
//! ModelOpt                  X.weight U8                       X.weight_scale           X.weight_scale_2
//! DeepSeek-V4, experts      X.weight I8                       X.scale F8_E8M0          -
//! MiMo, Quark               X.weight U8                       X.weight_scale U8        -
//! MLX                       X.weight U32 (out, in / 8)        X.scales U8              -
//! ```
//!
//! Not read: torchao, whose scales lie in the order of a kernel unless the file's metadata say otherwise, and
//! `X.global_scale` of MLX, which counts in parts of 2688.
//!
//! Codes are (.., out, in / 2) bytes where nothing else is said; how many bytes of codes a scale has tells the format: 8
//! NVFP4, 16 MXFP4, 24 MXFP6. The reference's converter leaves MXFP4 of gpt-oss and all NVFP4 in blocks, with the scale of
//! the tensor beside them.
//!
//! Source: `_generate_nvfp4_tensors` in `conversion/base.py` and `conversion/gpt_oss.py`, llama.cpp as vendored in
//! llama-cpp-python 0.3.36; compressed-tensors 0.20; nvidia-modelopt 0.47; mlx 0.32.4.

use std::sync::Arc;

use tensor::DType;

use super::{
    assembly::{Assembly, assemble},
    checks::finite_values,
    method::{Method, Reading},
    microscaled::{Format, Microscaled},
};
use crate::{Dtype, Error, Kept, Tensor};

/// The experts of gpt-oss.
pub(super) const GPT_OSS: Method = Method {
    name: "MXFP4 of gpt-oss",
    recognized_by: "quant_method `mxfp4`; tensors `_blocks` and `_scales`",
    detect: |quantized| {
        let has = |end: &str| quantized.tensors.iter().any(|tensor| tensor.name.ends_with(end));
        quantized.method_is(&["mxfp4"]) || quantized.method().is_none() && has("_blocks") && has("_scales")
    },
    reading: Reading::Decoded(|quantized| assemble(quantized, &[take])),
};

/// Endings behind a common stem.
struct Spelling {
    codes: &'static str,
    scales: &'static str,
    /// The scale of the whole tensor, and whether values are divided by it.
    tensor_scale: Option<(&'static str, bool)>,
    /// That of what the tensor is multiplied with, which divides where the other does.
    input_scale: Option<&'static str>,
    /// What both make.
    values: &'static str,
}

/// A spelling without scales of tensors.
const fn spelling(codes: &'static str, scales: &'static str, values: &'static str) -> Spelling {
    Spelling { codes, scales, tensor_scale: None, input_scale: None, values }
}

const SPELLINGS: &[Spelling] = &[
    spelling("_blocks", "_scales", "_blocks"),
    Spelling {
        tensor_scale: Some((".weight_global_scale", true)),
        input_scale: Some(".input_global_scale"),
        ..spelling(".weight_packed", ".weight_scale", ".weight")
    },
    Spelling {
        tensor_scale: Some((".weight_scale_2", false)),
        input_scale: Some(".input_scale"),
        ..spelling(".weight", ".weight_scale", ".weight")
    },
    spelling(".weight", ".scale", ".weight"),
    spelling(".weight", ".scales", ".weight"),
];

/// Takes all tensors of these formats.
///
/// # Errors
/// [`Error::PartType`], [`Error::PartShape`], [`Error::Read`] of a scale that is not finite.
pub(super) fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    take_with(assembly, |_| false)
}

/// As [`take`], where `wide_activations` says of a tensor of codes whether activations stay as they are.
///
/// # Errors
/// As [`take`].
pub(super) fn take_with(
    assembly: &mut Assembly<'_>,
    wide_activations: impl Fn(&Tensor) -> bool,
) -> Result<(), Error> {
    let mut n_decoded = 0;
    for codes in assembly.left() {
        let found = SPELLINGS.iter().find_map(|spelling| {
            let stem = codes.name.strip_suffix(spelling.codes)?;
            let scales = assembly.get(&format!("{stem}{}", spelling.scales))?;
            let (format, shape) = shape_of(codes, scales)?;
            Some((spelling, stem, scales, format, shape))
        });
        let Some((spelling, stem, scales, format, shape)) = found else { continue };
        let part = |end: &str| assembly.get(&format!("{stem}{end}"));
        let divides = spelling.tensor_scale.is_some_and(|(_, divides)| divides);
        let n_matrices: u64 = shape.iter().rev().skip(2).product();
        let tensor_scale = spelling.tensor_scale.and_then(|(end, _)| part(end));
        let tensor_scale = tensor_scale.filter(|_| format == Format::Nvfp4);
        let input_scale = spelling.input_scale.and_then(part).filter(|_| format == Format::Nvfp4);
        let factors = |tensor: Option<&Tensor>| {
            tensor.map_or(Ok(vec![1.0]), |tensor| tensor_scales(assembly, codes, tensor, n_matrices, divides))
        };
        let (tensor_scales, input_scales) = (factors(tensor_scale)?, factors(input_scale)?);
        let columns = part(".pre_quant_scale");
        let row_elems = shape.last().copied().unwrap_or(1);
        if let Some(columns) = columns.filter(|columns| columns.shape[..] != [row_elems]) {
            return Err(wrong_shape(columns, format!("[{row_elems}]"), codes));
        }
        // MXFP4 of others than gpt-oss is decoded, as all weights are; what ggml cannot hold too.
        let stays = format == Format::Nvfp4 || spelling.codes == "_blocks";
        let dtype = format.block(row_elems).filter(|_| stays && columns.is_none());
        n_decoded += usize::from(dtype.is_none() && format == Format::Nvfp4);
        let kept = dtype.map(|dtype: DType| Kept {
            dtype,
            scales: tensor_scales.clone(),
            input_scales,
            wide_activations: wide_activations(codes),
        });
        let stored = Microscaled {
            format,
            row_elems,
            matrix_rows: shape.iter().rev().nth(1).copied().unwrap_or(1),
            codes: codes.span(),
            scales: scales.span(),
            scales_name: scales.name.clone(),
            tensor_scales,
            columns: columns.cloned(),
            kept,
        };
        let name = format!("{stem}{}", spelling.values);
        let parts = [Some(scales), tensor_scale, input_scale.filter(|_| stored.kept.is_some()), columns];
        for part in parts.into_iter().flatten() {
            assembly.used(part);
        }
        assembly.put(codes, name, shape, Arc::new(stored));
    }
    if n_decoded > 0 {
        assembly.note(format!(
            "{n_decoded} matrices of NVFP4 are decoded: rows that are no multiple of 64, or columns with factors of their \
             own, fit no block"
        ));
    }
    Ok(())
}

/// The format of codes with these scales, and the shape of the values; none where they are of no format here.
fn shape_of(codes: &Tensor, scales: &Tensor) -> Option<(Format, Vec<u64>)> {
    if codes.n_bytes() == 0 {
        return None;
    }
    let is_bytes = matches!(codes.dtype, Dtype::U8 | Dtype::I8 | Dtype::U32 | Dtype::F4);
    // gpt-oss has a dimension more: 16 bytes for each scale.
    let outer = if codes.shape.len() == scales.shape.len() + 1 {
        codes.shape.strip_suffix(&[16]).filter(|outer| **outer == scales.shape[..])?
    } else {
        &codes.shape
    };
    let (&n_scales, lead) = scales.shape.split_last()?;
    if !is_bytes || lead.is_empty() || outer.len() != scales.shape.len() || outer[..lead.len()] != *lead {
        return None;
    }
    let n_rows: u64 = lead.iter().product();
    let row_bytes = codes.n_bytes().checked_div(n_rows)?;
    let format = match (row_bytes.checked_div(n_scales)?, scales.dtype) {
        (8, Dtype::F8_E4M3 | Dtype::U8) => Format::Nvfp4,
        (16, Dtype::F8_E8M0 | Dtype::U8) => Format::Mxfp4,
        (24, Dtype::F8_E8M0 | Dtype::U8) => Format::Mxfp6,
        _ => return None,
    };
    let is_whole = n_scales.checked_mul(format.group_bytes()) == Some(row_bytes);
    is_whole.then(|| (format, [lead, &[n_scales * format.group()]].concat()))
}

/// The factors of whole tensors: one, or one for each matrix.
fn tensor_scales(
    assembly: &Assembly<'_>,
    codes: &Tensor,
    scale: &Tensor,
    n_matrices: u64,
    divides: bool,
) -> Result<Vec<f32>, Error> {
    if !matches!(scale.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
        let (tensor, expected) = (scale.name.clone(), "F32, F16 or BF16");
        return Err(Error::PartType { tensor, expected, found: scale.dtype });
    }
    let n_scales: u64 = scale.shape.iter().product();
    if n_scales != 1 && n_scales != n_matrices {
        return Err(wrong_shape(
            scale,
            format!("one number, or one for each of {n_matrices} matrices"),
            codes,
        ));
    }
    let mut scales = finite_values(assembly.quantized.parts, scale)?;
    for value in scales.iter_mut().filter(|_| divides) {
        // What the reference stores is the reciprocal, rounded to f32.
        *value = 1.0 / *value;
    }
    match scales.iter().position(|value| !value.is_finite()) {
        None => Ok(scales),
        Some(_) => Err(wrong_shape(scale, "numbers above zero".to_owned(), codes)),
    }
}

fn wrong_shape(part: &Tensor, expected: String, codes: &Tensor) -> Error {
    let (found, shape) = (part.shape.clone(), codes.shape.clone());
    Error::PartShape { tensor: part.name.clone(), found, expected, codes: codes.name.clone(), shape }
}
