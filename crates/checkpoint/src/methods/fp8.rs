//! Floats of 8 bits with scales, in the spellings of all libraries.
//!
//! ```text
//! who                                 codes             scales                      shape of scales
//! fine-grained (DeepSeek-V3, Qwen3)   X.weight          X.weight_scale_inv          (out / 128, in / 128)
//! stacked experts of transformers 5   X.gate_up_proj    X.gate_up_proj_scale_inv    (E, out / 128, in / 128)
//! DeepSeek-V4                         X.weight          X.scale F8_E8M0             (out / 128, in / 128)
//! AutoFP8, static                     X.weight          X.weight_scale              ()
//! compressed-tensors                  X.weight          X.weight_scale              (out, 1), (1), (out / 128, in / 128)
//! ModelOpt                            X.weight          X.weight_scale              (), (out), (out / 128, 1, in / 128, 1)
//! ModelOpt, experts in one tensor     X.gate_up_proj    X.gate_up_proj_weight_scale (E), (E, rows), (E, columns)
//! FBGEMM                              X.weight          X.weight_scale              (out, 1)
//! FBGEMM, experts of Llama 4          X.gate_up_proj    X.gate_up_proj_scale        (E, 1, columns), (E, rows, 1)
//! Mistral                             X.weight          X.qscale_weight             ()
//! ComfyUI, first form                 X.weight          X.scale_weight              ()
//! quanto                              X.weight._data    X.weight._scale             (out, 1)
//! torchao Float8Tensor                X._weight_qdata   X._weight_scale             (out, 1), (1, 1)
//! Quark                               X.weight          X.weight_scale              (), (out)
//! ```
//!
//! The value is `f32(code) * f32(scale)`, even if the scale is named an inverse. Shapes decide; the config
//! only gives the size of blocks. Source: `ModelBase.dequant_model` in `conversion/base.py`, llama.cpp as
//! vendored in llama-cpp-python 0.3.36; transformers 5.23 `integrations/finegrained_fp8.py`, `fbgemm_fp8.py`;
//! compressed-tensors 0.20; torchao 0.18; optimum-quanto 0.2.7.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    assembly::Assembly,
    fp4,
    grid::Grid,
    method::{Method, Reading},
    number_tables::Numbers,
    quantized::Quantized,
    scaled::Scaled,
};
use crate::{Dtype, Error, Tensor};

/// FP8 of DeepSeek, transformers, FBGEMM, AutoFP8 and Mistral.
pub(super) const FP8: Method = Method {
    name: "FP8",
    recognized_by: "quant_method `fp8`, `fbgemm_fp8`, `mxfp8`; tensors `.weight_scale_inv`, `.qscale_weight`",
    detect: |quantized| {
        let is_fp8 = |tensor: &Tensor| matches!(tensor.dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2);
        quantized.method_is(&["fp8", "fbgemm_fp8", "mxfp8"])
            || quantized.has_tensors(&["weight_scale_inv"])
            || quantized.has_all(&["qscale_weight"])
            || quantized.has_tensors(&["weight_scale"]) && quantized.tensors.iter().any(is_fp8)
    },
    // A checkpoint can have 4-bit experts and other matrices of 8 bits: DeepSeek-V4, MiMo.
    reading: Reading::Decoded(&[fp4::take, take]),
};

/// Suffixes of codes, of their scales, and of the decoded tensor, after a common stem.
const SPELLINGS: &[[&str; 3]] = &[
    ["", "_scale_inv", ""],
    ["", "_scale", ""],
    ["", "_weight_scale", ""],
    [".weight", ".scale", ".weight"],
    [".weight", ".qscale_weight", ".weight"],
    [".weight", ".scale_weight", ".weight"],
    [".weight._data", ".weight._scale", ".weight"],
    ["._weight_qdata", "._weight_scale", ".weight"],
];

/// Takes every tensor of 8-bit floats that has scales.
///
/// # Errors
/// [`Error::PartForm`], [`Error::PartShape`], [`Error::JsonForm`] of the config.
pub(super) fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    take_where(assembly, |codes| match codes.dtype {
        Dtype::F8_E4M3 | Dtype::F8_E5M2 => Numbers::of(codes.dtype),
        _ => None,
    })
}

/// Takes every tensor with scales whose number format `numbers` returns.
pub(super) fn take_where(
    assembly: &mut Assembly<'_>,
    numbers: impl Fn(&Tensor) -> Option<Numbers>,
) -> Result<(), Error> {
    let blocks = blocks_of(assembly.quantized)?;
    for codes in assembly.left() {
        let Some(numbers) = numbers(codes) else { continue };
        let Some((scales, name)) = scales_of(assembly, codes) else { continue };
        let grid = match by_column(assembly.quantized, codes, scales) {
            Some(shape) => Grid::new(codes, &Tensor { shape, ..scales.clone() }, &blocks)?,
            None => Grid::new(codes, scales, &blocks)?,
        };
        let stored = Scaled {
            name: codes.name.clone(),
            codes: codes.span(),
            numbers,
            row_elems: codes.row_elems(),
            grid,
        };
        assembly.used(scales);
        assembly.put(codes, name, codes.shape.clone(), Arc::new(stored));
    }
    Ok(())
}

/// Scales of codes, by name, and the name of the decoded tensor.
fn scales_of<'a>(assembly: &Assembly<'a>, codes: &Tensor) -> Option<(&'a Tensor, String)> {
    SPELLINGS.iter().find_map(|[codes_end, scales_end, values_end]| {
        let stem = codes.name.strip_suffix(codes_end)?;
        let scales = assembly.get(&format!("{stem}{scales_end}"))?;
        Some((scales, format!("{stem}{values_end}")))
    })
}

/// Correct shape of the scales of Llama 4 experts from FBGEMM: codes are (E, inner, hidden), and the scales
/// of hidden units, which are columns, are stored as rows.
///
/// Source: `FbgemmFp8Quantize` in `integrations/fbgemm_fp8.py`, transformers 5.23.
fn by_column(quantized: &Quantized<'_>, codes: &Tensor, scales: &Tensor) -> Option<Vec<u64>> {
    match (&codes.shape[..], &scales.shape[..]) {
        (&[n_experts, _, hidden], &[n, rows, 1])
            if quantized.method_is(&["fbgemm_fp8"]) && codes.name.ends_with("down_proj") =>
        {
            (n == n_experts && rows == hidden).then(|| vec![n, 1, rows])
        }
        _ => None,
    }
}

/// Rows and columns of blocks, from any location in the config: `weight_block_size` of transformers,
/// `block_structure` and `group_size` of the groups of compressed-tensors.
fn blocks_of(quantized: &Quantized<'_>) -> Result<Vec<[u64; 2]>, Error> {
    let mut blocks = Vec::new();
    if let Some(size) = quantized.value(&["weight_block_size"]).filter(|size| !size.is_null()) {
        blocks.push(block("weight_block_size", size)?);
    }
    for (_, group) in quantized.entries("config_groups") {
        let Some(weights) = group.get("weights") else { continue };
        if let Some(size) = weights.get("block_structure").filter(|size| !size.is_null()) {
            blocks.push(block("block_structure", size)?);
        }
        if let Some(size) = weights.get("group_size").and_then(Json::as_u64).filter(|&size| size > 0) {
            blocks.push([1, size]);
        }
    }
    Ok(blocks)
}

fn block(key: &'static str, size: &Json) -> Result<[u64; 2], Error> {
    let numbers: Option<Vec<u64>> =
        size.as_array().and_then(|sizes| sizes.iter().map(|size| size.as_u64().filter(|&n| n > 0)).collect());
    match numbers.as_deref() {
        Some(&[rows, columns]) => Ok([rows, columns]),
        _ => Err(Error::JsonForm {
            file: "config.json".to_owned(),
            expected: format!("rows and columns of a block, above 0, at `{key}`"),
            found: size.to_string(),
        }),
    }
}
