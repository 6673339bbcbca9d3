//! Checks of the tensors of a decoded value, before the first is read.

use crate::{Dtype, Error, Part, ReadError, Tensor, rows::read_elems};

/// Error for a tensor that does not match its format: expected and found.
pub(super) fn mismatch(tensor: &Tensor, expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::PartForm { tensor: tensor.name.clone(), expected: expected.into(), found: found.into() }
}

/// Checks that a tensor has one of these types.
///
/// # Errors
/// [`Error::PartForm`].
pub(super) fn expect_dtype(tensor: &Tensor, dtypes: &[Dtype]) -> Result<(), Error> {
    if dtypes.contains(&tensor.dtype) {
        return Ok(());
    }
    let expected: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    Err(mismatch(tensor, expected.join(" or "), tensor.dtype.name()))
}

/// Checks how many elements a tensor has, in whatever shape, and that they are of one of these types.
///
/// # Errors
/// [`Error::PartForm`].
pub(super) fn expect_elems(tensor: &Tensor, dtypes: &[Dtype], n_elems: u64) -> Result<(), Error> {
    expect_dtype(tensor, dtypes)?;
    // Its size was checked when the file was opened, so the product fits.
    let found: u64 = tensor.shape.iter().product();
    if found == n_elems {
        return Ok(());
    }
    Err(mismatch(tensor, format!("{n_elems} elements"), format!("shape {:?}", tensor.shape)))
}

/// All elements of a small tensor as f32, each finite: scales of whole tensors, tables.
///
/// # Errors
/// [`Error::Read`], of a number that is not finite too.
pub(super) fn finite_values(parts: &[Part], tensor: &Tensor) -> Result<Vec<f32>, Error> {
    let mut values = vec![0.0; tensor.shape.iter().product::<u64>() as usize];
    read_elems(parts, tensor, 0, &mut values)?;
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values),
        Some(at) => Err(ReadError::no_value(&tensor.name, at as u64, "a finite number", values[at]).into()),
    }
}

/// The one element of a tensor as a whole number; flags and counts are stored so.
///
/// # Errors
/// [`Error::PartForm`], [`Error::Read`].
pub(super) fn small_number(parts: &[Part], tensor: &Tensor) -> Result<u64, Error> {
    use Dtype::{BOOL, I32, I64, U8};
    expect_elems(tensor, &[U8, BOOL, I32, I64], 1)?;
    let bytes = tensor.span().of(parts)?;
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    // The upper bytes of a negative number are missing or set: either way it exceeds every valid number.
    Ok(u64::from_le_bytes(wide))
}
