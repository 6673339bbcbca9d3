//! AWQ in AutoAWQ's layout.
//!
//! ```text
//! gemm  X.qweight  I32 (in, out / 8)   nibbles of eight outputs a word, in the order 0 2 4 6 1 3 5 7
//!       X.qzeros   I32 (in / g, out / 8), likewise
//!       X.scales   F16 (in / g, out)
//! gemv  X.qweight  I32 (out, in / 8)   nibbles in order
//!       X.qzeros   I32 (out, words)    nibbles of the groups in order, words up to a multiple of 1, 2 or 4
//!       X.scales   F16 (out, 8 words)  groups, then padding
//! ```
//!
//! `w[n, i] = (q - z) * s`; zeros are stored unchanged. If there is no norm between a model's activation and
//! the next matrix, AWQ divides the activation's output by separate `….scales`: they are folded into the
//! matrix's columns, `W[:, j] / scales[j]`.
//!
//! Source: autoawq 0.2.7.post3 `utils/packing_utils.py`, `modules/linear/gemm.py`, `gemv.py`,
//! `modules/act.py`.

use std::sync::Arc;

use super::{
    assembly::Assembly,
    checks::{expect_dtype, shape_error, wrong_dtype},
    gptq::group_sizes,
    method::{Method, Reading},
};
use crate::{
    Dtype, Error, Tensor,
    codes::{Axis, CodedWeights, Codes, FLOATS, Fields, Fold, Groups, Packing, Strided, ZeroRule, Zeros},
};

pub(super) const AWQ: Method = Method {
    name: "AWQ",
    recognized_by: "quant_method `awq`; tensors `.qweight`, `.qzeros`, `.scales`",
    detect: |quantized| {
        quantized.method_is(&["awq"]) || quantized.has_tensors(&["qweight", "qzeros", "scales"])
    },
    reading: Reading::Decoded(&[take]),
};

const PER_WORD: u64 = 8;

/// Takes every module of nibbles in the layouts gemm and gemv, which their shapes distinguish.
///
/// # Errors
/// [`Error::PartMissing`], [`Error::PartForm`], [`Error::PartShape`]; [`Error::ScalesWithoutCodes`] for
/// scales of an activation whose matrix is not found.
pub(super) fn take(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let sizes = group_sizes(assembly.quantized);
    let modules: Vec<&Tensor> =
        assembly.left().into_iter().filter(|codes| codes.name.ends_with(".qweight")).collect();
    let mut made = Vec::new();
    for codes in modules {
        let stem = codes.name.trim_end_matches(".qweight");
        let scales = assembly.floats(codes, &format!("{stem}.scales"))?;
        let zeros = assembly.optional(&format!("{stem}.qzeros"), &[Dtype::I32])?;
        expect_dtype(codes, &[Dtype::I32])?;
        let ([rows, words], [scale_rows, scale_columns]) = (dims(codes)?, dims(scales)?);
        let weights = if words.checked_mul(PER_WORD) == Some(scale_columns) {
            gemm(codes, scales, zeros, [rows, scale_columns, scale_rows])?
        } else if rows == scale_rows {
            gemv(codes, scales, zeros, &sizes)?
        } else {
            return Err(shape_error(
                scales,
                codes,
                "(groups, out) of codes (in, out / 8), or (out, groups) of (out, in / 8)",
            ));
        };
        assembly.used(scales);
        zeros.into_iter().for_each(|zeros| assembly.used(zeros));
        made.push((codes, stem, weights));
    }
    // The remaining scales divide activations.
    for scales in assembly.left() {
        let Some(activation) = scales.name.strip_suffix(".scales") else { continue };
        let block = activation.rsplit_once('.').map_or("", |(block, _)| block);
        let n_columns = scales.shape.iter().product::<u64>();
        let mut readers = made.iter_mut().filter(|(_, stem, weights)| {
            stem.strip_prefix(block).is_some_and(|rest| rest.starts_with('.'))
                && weights.n_columns == n_columns
        });
        // The only matrix of the block with this number of inputs.
        let (Some((_, _, weights)), None) = (readers.next(), readers.next()) else {
            return Err(Error::ScalesWithoutCodes { tensor: scales.name.clone() });
        };
        if !FLOATS.contains(&scales.dtype) {
            return Err(wrong_dtype(scales, "F16, BF16 or F32"));
        }
        let factors = Strided { group_stride: 1, ..Strided::one(scales) };
        weights.fold = Some(Fold { factors, divides: true });
        assembly.used(scales);
        assembly.note(format!("tensor `{}` is folded into the columns of the next matrix", scales.name));
    }
    for (codes, stem, weights) in made {
        let shape = vec![weights.n_rows, weights.n_columns];
        assembly.put(codes, format!("{stem}.weight"), shape, Arc::new(weights.checked()?));
    }
    Ok(())
}

fn dims(tensor: &Tensor) -> Result<[u64; 2], Error> {
    match tensor.shape[..] {
        [rows, columns] if rows > 0 && columns > 0 => Ok([rows, columns]),
        _ => Err(shape_error(tensor, tensor, "two dimensions")),
    }
}

/// The group size that makes `n_groups` equal groups of `n_columns`.
fn group_size(n_columns: u64, n_groups: u64) -> Option<u64> {
    (n_groups > 0 && n_columns.is_multiple_of(n_groups)).then(|| n_columns / n_groups)
}

/// Codes (in, out / 8).
fn gemm(
    codes: &Tensor,
    scales: &Tensor,
    zeros: Option<&Tensor>,
    [n_columns, n_rows, n_groups]: [u64; 3],
) -> Result<CodedWeights, Error> {
    let expected = "(groups, out) of groups of the same size";
    let size = group_size(n_columns, n_groups).ok_or_else(|| shape_error(scales, codes, expected))?;
    let nibbles = |tensor: &Tensor, n_streams: u64| {
        let packing = Packing::Words { stream_bytes: n_rows / 2, fields: Fields::Awq };
        Codes::new(tensor, 4, packing, Axis::Column, [n_streams, n_rows])
    };
    let zeros = match zeros {
        None => Zeros::Same(8.0),
        Some(zeros) if zeros.shape == [n_groups, n_rows / PER_WORD] => {
            Zeros::Codes(nibbles(zeros, n_groups), ZeroRule::AsStored)
        }
        Some(zeros) => return Err(shape_error(zeros, codes, "(groups, out / 8)")),
    };
    let scales = Strided::transposed(scales, n_rows);
    let codes = nibbles(codes, n_columns);
    Ok(CodedWeights::new([n_rows, n_columns], codes, scales, zeros, Groups::Size(size)))
}

/// Codes (out, in / 8).
fn gemv(
    codes: &Tensor,
    scales: &Tensor,
    zeros: Option<&Tensor>,
    sizes: &[u64],
) -> Result<CodedWeights, Error> {
    let ([n_rows, n_words], [_, scale_columns]) = (dims(codes)?, dims(scales)?);
    let n_columns = n_words.saturating_mul(PER_WORD);
    // Scales are padded, so only the config gives the number of groups.
    let size = sizes.first().copied().unwrap_or(n_columns);
    let n_groups = n_columns.div_ceil(size);
    if n_groups > scale_columns {
        return Err(shape_error(scales, codes, format!("(out, at least {n_groups})")));
    }
    let nibbles =
        |tensor: &Tensor, n_elems: u64| Codes::rows(tensor, 4, 0, [n_rows, n_elems], 4 * tensor.row_elems());
    let zeros = match zeros {
        None => Zeros::Same(8.0),
        Some(zeros) if zeros.shape == [n_rows, scale_columns / PER_WORD] => {
            Zeros::Codes(nibbles(zeros, n_groups), ZeroRule::AsStored)
        }
        Some(zeros) => return Err(shape_error(zeros, codes, "(out, words) of the groups of the scales")),
    };
    let scales = Strided::by_row(scales, n_rows, scale_columns);
    let codes = nibbles(codes, n_columns);
    Ok(CodedWeights::new([n_rows, n_columns], codes, scales, zeros, Groups::Size(size)))
}
