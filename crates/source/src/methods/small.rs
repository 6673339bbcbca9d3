//! Numbers of a tensor that are few and needed now: scales of whole tensors, factors of columns.

use std::ops::Range;

use crate::{Error, Part, ReadError, Tensor, View, read_rows};

/// Elements from `first` on, as many as `out` has.
///
/// # Errors
/// [`ReadError`].
pub(super) fn read_elems(
    parts: &[Part],
    tensor: &Tensor,
    first: u64,
    out: &mut [f32],
) -> Result<(), ReadError> {
    let Tensor { name, dtype, .. } = tensor;
    let place = |elem: u64| elem * dtype.bits() / 8;
    let bytes: Range<u64> = place(first)..place(first + out.len() as u64);
    let bytes = tensor.span().part_of(bytes).of(parts)?;
    read_rows(&View { name, dtype: *dtype, shape: &[out.len() as u64], bytes }, 0, 1, out)
}

/// All elements of a small tensor, each finite.
///
/// # Errors
/// [`Error::Read`], of a number that is not finite too.
pub(super) fn finite(parts: &[Part], tensor: &Tensor) -> Result<Vec<f32>, Error> {
    let mut out = vec![0.0; tensor.shape.iter().product::<u64>() as usize];
    read_elems(parts, tensor, 0, &mut out)?;
    match out.iter().position(|value| !value.is_finite()) {
        None => Ok(out),
        Some(row) => Err(Error::Read(ReadError::NoValue {
            tensor: tensor.name.clone(),
            row: row as u64,
            expected: "a finite number",
            found: out[row].to_string(),
        })),
    }
}
