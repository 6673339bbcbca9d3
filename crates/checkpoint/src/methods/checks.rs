//! Checks of the tensors of a decoded value, before the first is read.

use crate::{Dtype, Error, Part, ReadError, Tensor, codes::Groups, rows::read_elems};

/// Error for a tensor that does not match its format: expected and found.
pub(super) fn mismatch(tensor: &Tensor, expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::PartForm { tensor: tensor.name.clone(), expected: expected.into(), found: found.into() }
}

/// Like [`mismatch`], for a tensor whose type is not `expected`.
pub(super) fn wrong_dtype(tensor: &Tensor, expected: impl Into<String>) -> Error {
    mismatch(tensor, expected, tensor.dtype.name())
}

/// Like [`mismatch`], for a tensor whose shape is not `expected`.
pub(super) fn wrong_shape(tensor: &Tensor, expected: impl Into<String>) -> Error {
    mismatch(tensor, expected, format!("shape {:?}", tensor.shape))
}

/// Error for a part whose shape does not fit the codes.
pub(super) fn shape_error(part: &Tensor, codes: &Tensor, expected: impl Into<String>) -> Error {
    Error::PartShape {
        tensor: part.name.clone(),
        found: part.shape.clone(),
        expected: expected.into(),
        codes: codes.name.clone(),
        shape: codes.shape.clone(),
    }
}

/// Rows and columns of a two-dimensional tensor.
pub(super) fn matrix(tensor: &Tensor) -> Result<[u64; 2], Error> {
    <[u64; 2]>::try_from(&tensor.shape[..]).map_err(|_| wrong_shape(tensor, "a matrix"))
}

/// Checks that a tensor has one of `dtypes`.
pub(super) fn expect_dtype(tensor: &Tensor, dtypes: &[Dtype]) -> Result<(), Error> {
    if dtypes.contains(&tensor.dtype) {
        return Ok(());
    }
    let expected: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    Err(wrong_dtype(tensor, expected.join(" or ")))
}

/// Checks the number of elements of a tensor of any shape, and that it has one of `dtypes`.
pub(super) fn expect_elems(tensor: &Tensor, dtypes: &[Dtype], n_elems: u64) -> Result<(), Error> {
    expect_dtype(tensor, dtypes)?;
    // The size was checked when the file was opened, so the product fits.
    let found: u64 = tensor.shape.iter().product();
    if found == n_elems { Ok(()) } else { Err(wrong_shape(tensor, format!("{n_elems} elements"))) }
}

/// Group numbers of an index, one for each of `n_columns`.
pub(super) fn index_values(
    parts: &[Part],
    codes: &Tensor,
    index: &Tensor,
    n_columns: u64,
) -> Result<Vec<u32>, Error> {
    if index.shape != [n_columns] {
        return Err(shape_error(index, codes, "(in)"));
    }
    let bytes = index.span().of(parts)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
}

/// Groups of an index with the numbers `values`; [`Groups::Size`] if they are groups of `size` in order.
pub(super) fn groups_of(index: &Tensor, values: &[u32], n_groups: u64, size: u64) -> Result<Groups, Error> {
    if let Some(place) = values.iter().position(|group| u64::from(*group) >= n_groups) {
        return Err(Error::PartValue {
            tensor: index.name.clone(),
            index: place as u64,
            expected: format!("a group, 0 to {}", n_groups - 1),
            found: i64::from(values[place] as i32),
        });
    }
    let in_order = (0..).zip(values).all(|(column, group)| u64::from(*group) == column / size);
    Ok(if in_order {
        Groups::Size(size)
    } else {
        Groups::Index { name: index.name.clone(), span: index.span(), n_groups }
    })
}

/// All elements of a small tensor as f32: scales of tensors, tables.
///
/// # Errors
/// [`Error::Read`], also for a number that is not finite.
pub(super) fn finite_values(parts: &[Part], tensor: &Tensor) -> Result<Vec<f32>, Error> {
    let mut values = vec![0.0; tensor.shape.iter().product::<u64>() as usize];
    read_elems(parts, tensor, 0, &mut values)?;
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values),
        Some(at) => Err(ReadError::no_value(&tensor.name, at as u64, "a finite number", values[at]).into()),
    }
}

/// The single element of a tensor as an unsigned integer, the form of flags and counts.
pub(super) fn small_number(parts: &[Part], tensor: &Tensor) -> Result<u64, Error> {
    use Dtype::{BOOL, I32, I64, U8};
    expect_elems(tensor, &[U8, BOOL, I32, I64], 1)?;
    let bytes = tensor.span().of(parts)?;
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(&bytes);
    // The upper bytes of a negative number are missing or set: either way it exceeds every valid number.
    Ok(u64::from_le_bytes(wide))
}
