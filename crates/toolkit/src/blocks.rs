//! One tensor at a time: rows of numbers to blocks, and back.

use gguf_quant::{Level, Rows};
use gguf_types::DType;
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use crate::{cause::Cause, error::Error};

/// Elements that a thread works on at once.
const JOB_ELEMS: usize = 1 << 18;

/// Encodes a matrix, (rows, row_elems), to blocks of `dtype`: (rows, row bytes). The bytes are those that
/// `llama-quantize` writes for these rows without an importance matrix. Each row is encoded independently.
///
/// # Errors
/// [`Cause::Codec`]: the type is read-only or needs importance weights, or the row length is not a multiple
/// of the block size.
///
/// # Examples
/// ```
/// use gguf_toolkit::{DType, decode, encode};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let weights = ndarray::Array2::from_shape_fn((2, 32), |(row, column)| (row * 32 + column) as f32);
/// let blocks = encode(DType::Q8_0, weights.view())?;
/// assert_eq!(blocks.dim(), (2, 34));
/// let near = decode(DType::Q8_0, blocks.view())?;
/// assert!((near[(1, 7)] - 39.0).abs() < 0.3);
/// # Ok(())
/// # }
/// ```
pub fn encode(dtype: DType, values: ArrayView2<'_, f32>) -> Result<Array2<u8>, Error> {
    encode_rows(dtype, values, None)
}

/// As [`encode`], with an importance weight for each column: (row_elems).
///
/// # Errors
/// As [`encode`].
pub fn encode_weighted(
    dtype: DType,
    values: ArrayView2<'_, f32>,
    importance: &[f32],
) -> Result<Array2<u8>, Error> {
    encode_rows(dtype, values, Some(importance))
}

fn encode_rows(
    dtype: DType,
    values: ArrayView2<'_, f32>,
    weights: Option<&[f32]>,
) -> Result<Array2<u8>, Error> {
    let (n_rows, row_elems) = values.dim();
    let block_elems = dtype.block_elems() as usize;
    if !dtype.is_encodable() {
        return Err(gguf_quant::CodecError::NoCodec { dtype, verb: "encode" }.into());
    }
    if row_elems == 0 || !row_elems.is_multiple_of(block_elems) {
        let expected = row_elems.next_multiple_of(block_elems).max(block_elems);
        return Err(Cause::Shape { quantity: "row length in elements", found: row_elems, expected }.into());
    }
    let row_bytes = row_elems / block_elems * dtype.block_bytes() as usize;
    let mut out = Array2::zeros((n_rows, row_bytes));
    // Contiguous rows are used in place; others are copied first.
    let values = values.as_standard_layout();
    let (Some(values), Some(blocks)) = (values.as_slice(), out.as_slice_mut()) else { return Ok(out) };
    let rows_at_once = (JOB_ELEMS / row_elems).max(1);
    let level = Level::detect();
    let jobs = values.par_chunks(rows_at_once * row_elems);
    jobs.zip(blocks.par_chunks_mut(rows_at_once * row_bytes)).try_for_each(|(values, out)| {
        gguf_quant::encode(dtype, level, Rows { values, row_elems, weights }, out)
    })?;
    Ok(out)
}

/// Decodes blocks of `dtype`, (rows, row bytes), to (rows, row_elems).
///
/// # Errors
/// [`Cause::Codec`] for a type without a codec, [`Cause::Shape`] for rows that are not whole blocks.
pub fn decode(dtype: DType, blocks: ArrayView2<'_, u8>) -> Result<Array2<f32>, Error> {
    let (n_rows, row_bytes) = blocks.dim();
    let block_bytes = dtype.block_bytes() as usize;
    if !row_bytes.is_multiple_of(block_bytes) {
        let expected = row_bytes.next_multiple_of(block_bytes);
        return Err(Cause::Shape { quantity: "row length in bytes", found: row_bytes, expected }.into());
    }
    let row_elems = row_bytes / block_bytes * dtype.block_elems() as usize;
    let mut out = Array2::zeros((n_rows, row_elems));
    let blocks = blocks.as_standard_layout();
    let (Some(blocks), Some(values)) = (blocks.as_slice(), out.as_slice_mut()) else { return Ok(out) };
    decode_rows(dtype, blocks, row_elems, values)?;
    Ok(out)
}

/// Decodes whole rows of blocks into `out`, (rows, row_elems).
pub(crate) fn decode_rows(
    dtype: DType,
    blocks: &[u8],
    row_elems: usize,
    out: &mut [f32],
) -> Result<(), Error> {
    if row_elems == 0 {
        return Ok(());
    }
    let rows_at_once = (JOB_ELEMS / row_elems).max(1);
    let row_bytes = row_elems / dtype.block_elems() as usize * dtype.block_bytes() as usize;
    let level = Level::detect();
    let jobs = blocks.par_chunks(rows_at_once * row_bytes).zip(out.par_chunks_mut(rows_at_once * row_elems));
    jobs.try_for_each(|(blocks, out)| gguf_quant::decode(dtype, level, blocks, out))?;
    Ok(())
}
