//! Integers of ModelOpt: 4 bits in groups, 8 bits with a scale for each row, and a factor for each column.
//!
//! ```text
//! W4A16_AWQ   X.weight U8 [out / 2, in]   row 2r in the low nibble, row 2r + 1 in the high one, two's complement
//!             X.weight_scale [out, in / g]
//! W8A16, W8A8_SQ_PER_CHANNEL   X.weight I8 [out, in], X.weight_scale [out]
//! both        X.pre_quant_scale [in]      factor of the inputs, and so of each column of the matrix
//!
//! w = code * scale * pre_quant_scale
//! ```
//!
//! W4A8_AWQ, which rounds to 8-bit floats after that and has a `weight_scale_2`, is refused. Source:
//! `pack_int4_in_uint8` in `torch/export/quant_utils.py` of nvidia-modelopt 0.47.

use std::sync::Arc;

use super::{
    assembly::Assembly,
    checks::{matrix, mismatch, shape_error, wrong_shape},
};
use crate::{
    Dtype, Error, Tensor,
    codes::{Axis, CodedWeights, Codes, FLOATS, Groups, Packing, Strided, Zeros},
};

pub(super) fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for codes in assembly.left() {
        let Some(module) = codes.name.strip_suffix(".weight") else { continue };
        let Some(scales) = assembly.get(&format!("{module}.weight_scale")) else { continue };
        // 8-bit floats have scales of another type or are 8-bit floats themselves.
        if !matches!(codes.dtype, Dtype::U8 | Dtype::I8) || !FLOATS.contains(&scales.dtype) {
            continue;
        }
        if let Some(second) = assembly.get(&format!("{module}.weight_scale_2")) {
            return Err(mismatch(second, "integers with one stage of scales", "a second one (W4A8_AWQ)"));
        }
        let [rows, n_columns] = matrix(codes)?;
        if rows == 0 || n_columns == 0 {
            return Err(wrong_shape(codes, "a matrix"));
        }
        let mut weights = match codes.dtype {
            Dtype::U8 => nibbles(codes, scales, [rows.saturating_mul(2), n_columns])?,
            _ => bytes(codes, scales, [rows, n_columns])?,
        };
        weights.fold = assembly.fold(codes, &format!("{module}.pre_quant_scale"), n_columns)?;
        let shape = vec![weights.n_rows, n_columns];
        assembly.used(scales);
        assembly.put(codes, codes.name.clone(), shape, Arc::new(weights.checked()?));
    }
    Ok(())
}

fn nibbles(codes: &Tensor, scales: &Tensor, [n_rows, n_columns]: [u64; 2]) -> Result<CodedWeights, Error> {
    let groups = match scales.shape[..] {
        [rows, groups] if rows == n_rows && groups > 0 && n_columns.is_multiple_of(groups) => groups,
        _ => return Err(shape_error(scales, codes, "(out, groups) for (out / 2, in)")),
    };
    let packing = Packing::Down { word_bytes: 1, whole: true };
    let codes = Codes::new(codes, 4, packing, Axis::Column, [n_columns, n_rows]);
    Ok(CodedWeights::new(
        [n_rows, n_columns],
        // Two's complement: the flipped sign bit makes the zero 8.
        Codes { flip: 0x08, ..codes },
        Strided::by_row(scales, n_rows, groups),
        Zeros::Same(8.0),
        Groups::Size(n_columns / groups),
    ))
}

/// A byte per code, and a scale per row or one for all.
fn bytes(codes: &Tensor, scales: &Tensor, [n_rows, n_columns]: [u64; 2]) -> Result<CodedWeights, Error> {
    let strided = match scales.shape.iter().product::<u64>() {
        1 => Strided::one(scales),
        n if n == n_rows => Strided { row_stride: 1, ..Strided::one(scales) },
        _ => return Err(shape_error(scales, codes, "(out), (out, 1) or one number")),
    };
    // Two's complement: the flipped sign bit makes the zero 128.
    let codes = Codes::rows(codes, 8, 0x80, [n_rows, n_columns], n_columns);
    let groups = Groups::Size(n_columns);
    Ok(CodedWeights::new([n_rows, n_columns], codes, strided, Zeros::Same(128.0), groups))
}
