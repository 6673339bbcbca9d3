//! Floats of 4 and 6 bits with group scales, in the layouts of all libraries.
//!
//! ```text
//! who                       codes                             scales of groups         scale of the tensor
//! gpt-oss                   X_blocks U8 (.., in / 32, 16)     X_scales U8              -
//! compressed-tensors        X.weight_packed U8                X.weight_scale           X.weight_global_scale, divides
//! ModelOpt                  X.weight U8                       X.weight_scale           X.weight_scale_2
//! DeepSeek-V4, experts      X.weight I8                       X.scale F8_E8M0          -
//! MiMo, Quark               X.weight U8                       X.weight_scale U8        -
//! MLX                       X.weight U32                      X.scales U8              X.global_scale, in parts of 2688
//! torchao                   `torchao_floats.rs`
//! ```
//!
//! Codes are (.., out, in / 2) bytes unless noted; the number of code bytes per scale gives the format: 8
//! NVFP4, 16 MXFP4, 24 MXFP6, 32 MXFP8 (only in words of MLX; other 8-bit codes have their own type and are
//! read by `fp8.rs`). The reference's converter keeps MXFP4 of gpt-oss and DeepSeek-V4 and all NVFP4 as
//! blocks, with the tensor's scale as another tensor; we do the same for layouts that it cannot read.
//!
//! Source: `_generate_nvfp4_tensors` in `conversion/base.py` and `conversion/gpt_oss.py`, llama.cpp as
//! vendored in llama-cpp-python 0.3.36; compressed-tensors 0.20; nvidia-modelopt 0.47; mlx 0.32.4
//! (`fp_quantized.h`).

use std::sync::Arc;

use gguf_types::{DType, StoredBlocks};
use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    checks::{finite_values, shape_error, wrong_dtype},
    experts::have_biases,
    method::{Method, Reading},
    microscaled::{Format, Microscaled},
    number_tables::Numbers,
    scale_order::ScaleOrder,
};
use crate::{Dtype, Error, Tensor};

pub(super) const GPT_OSS: Method = Method {
    name: "MXFP4 of gpt-oss",
    recognized_by: "quant_method `mxfp4`; tensors `_blocks` and `_scales`",
    detect: |quantized| {
        let has = |end: &str| quantized.tensors.iter().any(|tensor| tensor.name.ends_with(end));
        quantized.method_is(&["mxfp4"]) || quantized.method().is_none() && has("_blocks") && has("_scales")
    },
    reading: Reading::Decoded(&[take]),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Factor,
    Divisor,
    /// The largest magnitude: the factor times the largest code and the largest scale, 6 and 448.
    Largest,
}

impl Written {
    /// Factor in f32, rounded like in its library.
    fn factor(self, scale: f32) -> f32 {
        match self {
            Written::Factor => scale,
            // The reference stores the reciprocal, rounded to f32.
            Written::Divisor => 1.0 / scale,
            Written::Largest => scale / (448.0 * 6.0),
        }
    }
}

struct Spelling {
    codes: &'static str,
    scales: &'static str,
    /// Suffix and meaning of the tensor-wide scale.
    tensor_scale: Option<(&'static str, Written)>,
    /// Suffix of the activation scale, which has the same meaning.
    input_scale: Option<&'static str>,
    values: &'static str,
}

/// A spelling without scales of tensors.
const fn spelling(codes: &'static str, scales: &'static str, values: &'static str) -> Spelling {
    Spelling { codes, scales, tensor_scale: None, input_scale: None, values }
}

const SPELLINGS: &[Spelling] = &[
    spelling("_blocks", "_scales", "_blocks"),
    Spelling {
        tensor_scale: Some((".weight_global_scale", Written::Divisor)),
        input_scale: Some(".input_global_scale"),
        ..spelling(".weight_packed", ".weight_scale", ".weight")
    },
    Spelling {
        tensor_scale: Some((".weight_scale_2", Written::Factor)),
        input_scale: Some(".input_scale"),
        ..spelling(".weight", ".weight_scale", ".weight")
    },
    spelling(".weight", ".scale", ".weight"),
    Spelling {
        tensor_scale: Some((".global_scale", Written::Largest)),
        ..spelling(".weight", ".scales", ".weight")
    },
];

/// Tensors of one matrix or stack, and their meaning.
pub(super) struct Parts<'a> {
    pub codes: &'a Tensor,
    /// Scales of groups, in an order.
    pub scales: (&'a Tensor, ScaleOrder),
    /// Number format of codes and scales.
    pub format: Format,
    /// Name and shape of the values.
    pub values: (String, Vec<u64>),
    /// Tensor-wide scale, and that of the activations: for NVFP4 only.
    pub tensor_scales: [Option<&'a Tensor>; 2],
    pub written: Written,
    pub columns: Option<&'a Tensor>,
    /// True if the values stay in blocks when a block can represent them.
    pub keeps_blocks: bool,
    /// True if activations must not be rounded to 4 bits.
    pub wide_activations: bool,
}

impl<'a> Parts<'a> {
    /// Replaces the codes with values; returns true if they stay in blocks.
    ///
    /// # Errors
    /// [`Error::PartForm`], [`Error::PartShape`], [`Error::Read`] for a scale that is not finite.
    pub fn put(self, assembly: &mut Assembly<'a>) -> Result<bool, Error> {
        let Parts { codes, format, .. } = self;
        let (name, shape) = self.values;
        let n_matrices: u64 = shape.iter().rev().skip(2).product();
        let factors = |tensor: Option<&Tensor>| {
            tensor.map_or(Ok(vec![1.0]), |tensor| {
                tensor_scales(assembly, codes, tensor, n_matrices, self.written)
            })
        };
        let [tensor_scale, input_scale] = self.tensor_scales;
        let (tensor_scales, input_scales) = (factors(tensor_scale)?, factors(input_scale)?);
        let row_elems = shape.last().copied().unwrap_or(1);
        if let Some(columns) = self.columns.filter(|columns| columns.shape[..] != [row_elems]) {
            return Err(shape_error(columns, codes, format!("[{row_elems}]")));
        }
        let dtype = format.block(row_elems).filter(|_| self.keeps_blocks && self.columns.is_none());
        let stored_blocks = dtype.map(|dtype: DType| StoredBlocks {
            dtype,
            scales: tensor_scales.clone(),
            input_scales,
            wide_activations: self.wide_activations,
        });
        let (scales, order) = self.scales;
        let stored = Microscaled {
            format,
            row_elems,
            matrix_rows: shape.iter().rev().nth(1).copied().unwrap_or(1),
            codes: codes.span(),
            codes_name: codes.name.clone(),
            scales: scales.span(),
            scales_name: scales.name.clone(),
            order,
            tensor_scales,
            columns: self.columns.cloned(),
            stored_blocks,
        };
        let is_stored = stored.stored_blocks.is_some();
        let parts = [Some(scales), tensor_scale, input_scale.filter(|_| is_stored), self.columns];
        for part in parts.into_iter().flatten() {
            assembly.used(part);
        }
        assembly.put(codes, name, shape, Arc::new(stored));
        Ok(is_stored)
    }
}

/// Takes all tensors of these formats.
///
/// # Errors
/// [`Error::PartForm`], [`Error::PartShape`], [`Error::Read`] for a scale that is not finite.
pub(super) fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    take_with(assembly, |_| false)
}

/// Like [`take`]; `wide_activations` returns true for codes whose activations keep their precision.
pub(super) fn take_with(
    assembly: &mut Assembly<'_>,
    wide_activations: impl Fn(&Tensor) -> bool,
) -> Result<(), Error> {
    // Tensors that the reference keeps from the publisher's files, even if another tool rewrote them: experts
    // of gpt-oss, and those that the model's config states as 4-bit floats (DeepSeek-V4).
    let expert_dtype = assembly.quantized.model.get("expert_dtype").and_then(Json::as_str);
    let keeps_experts = expert_dtype == Some("fp4") || have_biases(assembly.quantized.tensors);
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
        let is_nvfp4 = format == Format::Nvfp4;
        let nvfp4_part = |end: Option<&str>| end.and_then(part).filter(|_| is_nvfp4);
        let tensor_scale = nvfp4_part(spelling.tensor_scale.map(|(end, _)| end));
        let parts = Parts {
            codes,
            scales: (scales, ScaleOrder::Rows),
            format,
            values: (format!("{stem}{}", spelling.values), shape),
            tensor_scales: [tensor_scale, nvfp4_part(spelling.input_scale)],
            written: spelling.tensor_scale.map_or(Written::Factor, |(_, written)| written),
            columns: part(".pre_quant_scale"),
            // MXFP4 from other sources is decoded like all weights, even if ggml blocks could represent it.
            keeps_blocks: is_nvfp4
                || spelling.codes == "_blocks"
                || keeps_experts && codes.name.contains(".experts."),
            wide_activations: is_nvfp4 && wide_activations(codes),
        };
        let is_stored = parts.put(assembly)?;
        n_decoded += usize::from(is_nvfp4 && !is_stored);
    }
    note_decoded(assembly, n_decoded);
    Ok(())
}

/// Adds a note about NVFP4 matrices that cannot stay in blocks, if any.
pub(super) fn note_decoded(assembly: &mut Assembly<'_>, n_decoded: usize) {
    if n_decoded > 0 {
        assembly.note(format!(
            "{n_decoded} NVFP4 matrices are decoded, because their rows are not a multiple of 64 or have \
                per-column factors"
        ));
    }
}

/// Format of codes with these scales, and the shape of the values; `None` for an unknown format.
pub(super) fn shape_of(codes: &Tensor, scales: &Tensor) -> Option<(Format, Vec<u64>)> {
    if codes.n_bytes() == 0 {
        return None;
    }
    let is_bytes = matches!(codes.dtype, Dtype::U8 | Dtype::I8 | Dtype::U32 | Dtype::F4);
    // gpt-oss has an additional dimension: 16 bytes for each scale.
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
        (8, Dtype::F8_E4M3) => Format::Nvfp4,
        // Bytes may be of another format, but for those of MLX.
        (8, Dtype::U8) if codes.dtype == Dtype::U32 => Format::Nvfp4,
        (16, Dtype::F8_E8M0 | Dtype::U8) => Format::Mxfp4,
        (24, Dtype::F8_E8M0 | Dtype::U8) => Format::Mxfp6,
        (32, Dtype::U8) if codes.dtype == Dtype::U32 => Format::Mxfp8(Numbers::E4M3),
        _ => return None,
    };
    let is_whole = n_scales.checked_mul(format.group_bytes()) == Some(row_bytes);
    is_whole.then(|| (format, [lead, &[n_scales * format.group()]].concat()))
}

/// Tensor-wide factors: one, or one per matrix.
fn tensor_scales(
    assembly: &Assembly<'_>,
    codes: &Tensor,
    scale: &Tensor,
    n_matrices: u64,
    written: Written,
) -> Result<Vec<f32>, Error> {
    if !matches!(scale.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
        return Err(wrong_dtype(scale, "F32, F16 or BF16"));
    }
    let n_scales: u64 = scale.shape.iter().product();
    if n_scales != 1 && n_scales != n_matrices {
        let expected = format!("one number, or one for each of {n_matrices} matrices");
        return Err(shape_error(scale, codes, expected));
    }
    let mut scales = finite_values(assembly.quantized.parts, scale)?;
    for value in &mut scales {
        *value = written.factor(*value);
    }
    match scales.iter().position(|value| !value.is_finite()) {
        None => Ok(scales),
        Some(_) => Err(shape_error(scale, codes, "numbers above zero")),
    }
}
