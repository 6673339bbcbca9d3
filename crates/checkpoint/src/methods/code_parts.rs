//! Shared by methods with codes and scales: lookup of a module's parts, and its errors.

use super::assembly::Assembly;
use crate::{
    Dtype, Error, Part, Tensor,
    codes::{Axis, Codes, FLOATS, Packing},
};

/// The part `name` of the module whose codes are `codes`, which must be of one of `dtypes`.
///
/// # Errors
/// [`Error::PartMissing`], [`Error::PartType`].
pub(super) fn part_of<'a>(
    assembly: &Assembly<'a>,
    codes: &Tensor,
    name: &str,
    dtypes: &[Dtype],
    expected: &'static str,
) -> Result<&'a Tensor, Error> {
    let missing = || Error::PartMissing { tensor: name.to_owned(), codes: codes.name.clone() };
    let part = assembly.get(name).ok_or_else(missing)?;
    match dtypes.contains(&part.dtype) {
        true => Ok(part),
        false => Err(Error::PartType { tensor: part.name.clone(), expected, found: part.dtype }),
    }
}

/// As [`part_of`], floats.
///
/// # Errors
/// As [`part_of`].
pub(super) fn floats_of<'a>(
    assembly: &Assembly<'a>,
    codes: &Tensor,
    name: &str,
) -> Result<&'a Tensor, Error> {
    part_of(assembly, codes, name, FLOATS, "F16, BF16 or F32")
}

/// The error of a part whose shape is not `expected`.
pub(super) fn shape_error(part: &Tensor, codes: &Tensor, expected: &str) -> Error {
    Error::PartShape {
        tensor: part.name.clone(),
        found: part.shape.clone(),
        expected: expected.to_owned(),
        codes: codes.name.clone(),
        shape: codes.shape.clone(),
    }
}

/// All words of a tensor of I32.
///
/// # Errors
/// What hinders reading.
pub(super) fn u32s(parts: &[Part], tensor: &Tensor) -> Result<Vec<u32>, Error> {
    let bytes = tensor.span().of(parts)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
}

/// Codes of matrices (rows, columns) in dense streams, one for each row.
pub(super) fn dense_rows(
    tensor: &Tensor,
    bits: u32,
    flip: u8,
    [n_rows, n_columns]: [u64; 2],
    stream_bytes: u64,
) -> Codes {
    Codes {
        name: tensor.name.clone(),
        span: tensor.span(),
        bits,
        packing: Packing::Dense { stream_bytes },
        axis: Axis::Row,
        n_streams: n_rows,
        n_elems: n_columns,
        // The file was checked, so the product fits.
        matrix_bytes: n_rows.saturating_mul(stream_bytes),
        flip,
    }
}
