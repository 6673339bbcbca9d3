//! Integers of ModelOpt: 4 bits in groups, 8 bits with a scale for each row, and a factor for each column.
//!
//! ```text
//! W4A16_AWQ   X.weight U8 [out / 2, in]   row 2r in the low nibble, row 2r + 1 in the high one, two's complement
//!             X.weight_scale [out, in / g]
//! W8A16, W8A8_SQ_PER_CHANNEL   X.weight I8 [out, in], X.weight_scale [out]
//! both        X.pre_quant_scale [in]      what inputs are multiplied by, and so each column of the matrix
//!
//! w = code * scale * pre_quant_scale
//! ```
//!
//! W4A8_AWQ, which rounds to 8-bit floats after that and has a `weight_scale_2`, is refused. Source:
//! `pack_int4_in_uint8` in `torch/export/quant_utils.py` of nvidia-modelopt 0.47.

use std::sync::Arc;

use super::{
    assembly::Assembly,
    checks::mismatch,
    code_parts::{dense_rows, floats_of, shape_error},
};
use crate::{
    Dtype, Error, Tensor,
    codes::{Axis, CodedWeights, Codes, FLOATS, Fold, Groups, Packing, Strided, Zeros},
};

/// Takes every module of integers.
///
/// # Errors
/// [`Error::PartForm`], [`Error::PartType`], [`Error::PartShape`].
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
        let [rows, n_columns] = codes.shape[..] else {
            return Err(mismatch(codes, "a matrix", format!("shape {:?}", codes.shape)));
        };
        if rows == 0 || n_columns == 0 {
            return Err(mismatch(codes, "a matrix", format!("shape {:?}", codes.shape)));
        }
        let mut weights = match codes.dtype {
            Dtype::U8 => nibbles(codes, scales, [rows.saturating_mul(2), n_columns])?,
            _ => bytes(codes, scales, [rows, n_columns])?,
        };
        let factors = format!("{module}.pre_quant_scale");
        if assembly.get(&factors).is_some() {
            let factors = floats_of(assembly, codes, &factors)?;
            if factors.shape.iter().product::<u64>() != n_columns {
                return Err(shape_error(factors, codes, "a factor for each input"));
            }
            let strided = Strided { group_stride: 1, ..Strided::one(factors) };
            weights.fold = Some(Fold { factors: strided, divides: false });
            assembly.used(factors);
            assembly.note(format!("tensor `{}` is folded into the columns of its matrix", factors.name));
        }
        let shape = vec![weights.n_rows, n_columns];
        assembly.used(scales);
        assembly.put(codes, codes.name.clone(), shape, Arc::new(weights.checked()?));
    }
    Ok(())
}

/// Two rows a byte.
fn nibbles(codes: &Tensor, scales: &Tensor, [n_rows, n_columns]: [u64; 2]) -> Result<CodedWeights, Error> {
    let groups = match scales.shape[..] {
        [rows, groups] if rows == n_rows && groups > 0 && n_columns.is_multiple_of(groups) => groups,
        _ => return Err(shape_error(scales, codes, "(out, groups) for (out / 2, in)")),
    };
    Ok(CodedWeights {
        n_matrices: 1,
        n_rows,
        n_columns,
        codes: Codes {
            name: codes.name.clone(),
            span: codes.span(),
            bits: 4,
            packing: Packing::Down { word_bytes: 1, whole: true },
            axis: Axis::Column,
            n_streams: n_columns,
            n_elems: n_rows,
            matrix_bytes: codes.n_bytes(),
            // Two's complement: the flipped sign bit makes the zero 8.
            flip: 0x08,
        },
        scales: Strided::by_row(scales, n_rows, groups),
        zeros: Zeros::Same(8.0),
        offsets: None,
        groups: Groups::Size(n_columns / groups),
        fold: None,
    })
}

/// A byte for each code, and a scale for each row or one for all.
pub(super) fn bytes(
    codes: &Tensor,
    scales: &Tensor,
    [n_rows, n_columns]: [u64; 2],
) -> Result<CodedWeights, Error> {
    let strided = match scales.shape.iter().product::<u64>() {
        1 => Strided::one(scales),
        n if n == n_rows => Strided { row_stride: 1, ..Strided::one(scales) },
        _ => return Err(shape_error(scales, codes, "(out), (out, 1) or one number")),
    };
    let (flip, zero) = if codes.dtype == Dtype::I8 { (0x80, 128.0) } else { (0, 0.0) };
    Ok(CodedWeights {
        n_matrices: 1,
        n_rows,
        n_columns,
        codes: dense_rows(codes, 8, flip, [n_rows, n_columns], n_columns),
        scales: strided,
        zeros: Zeros::Same(zero),
        offsets: None,
        groups: Groups::Size(n_columns),
        fold: None,
    })
}
