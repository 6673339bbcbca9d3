//! Tensor shapes in ggml's order, with every size checked.

use std::fmt;

use crate::DType;

/// Maximum number of dimensions of a tensor in a container file. Kernels of video models, (out, in, time,
/// height, width), have five.
pub const MAX_DIMS: usize = 5;

/// Maximum number of dimensions of a tensor that llama.cpp loads (`GGML_MAX_DIMS`).
pub const GGML_MAX_DIMS: usize = 4;

/// Reason for refusing a shape or a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ShapeError {
    /// More than [`MAX_DIMS`] dimensions.
    #[error("expected at most {MAX_DIMS} dimensions, found {found}")]
    TooManyDims { found: usize },
    /// The product of the dimensions, in elements or bytes, does not fit 63 bits.
    #[error("size of shape {dims:?} does not fit in 63 bits")]
    Overflow {
        /// Dimensions, row length first.
        dims: Vec<u64>,
    },
    /// The row does not fill blocks.
    #[error("row length {row_elems} is not a multiple of the {dtype} block size {block_elems}")]
    PartialBlock { row_elems: u64, block_elems: u64, dtype: DType },
}

/// Up to [`MAX_DIMS`] dimensions in ggml's order: `dims()[0]` is the row length.
///
/// A Hugging Face weight of shape `(out, in)` is `Shape` `[in, out]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [u64; MAX_DIMS],
    n_dims: usize,
}

impl Shape {
    /// A shape from dimensions in ggml's order (row length first).
    ///
    /// # Errors
    /// [`ShapeError::TooManyDims`], or [`ShapeError::Overflow`] if the number of elements does not fit in 63
    /// bits.
    pub fn new(dims: &[u64]) -> Result<Shape, ShapeError> {
        if dims.len() > MAX_DIMS {
            return Err(ShapeError::TooManyDims { found: dims.len() });
        }
        let mut shape = Shape { dims: [1; MAX_DIMS], n_dims: dims.len() };
        shape.dims[..dims.len()].copy_from_slice(dims);
        // Zeros count as ones, so that no product of some dimensions overflows either.
        let product = dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim.max(&1)));
        match product {
            Some(n) if i64::try_from(n).is_ok() => Ok(shape),
            _ => Err(ShapeError::Overflow { dims: dims.to_vec() }),
        }
    }

    /// A shape from dimensions in the order of numpy and torch (row length last).
    pub fn from_row_major(dims: &[u64]) -> Result<Shape, ShapeError> {
        let mut reversed = dims.to_vec();
        reversed.reverse();
        Shape::new(&reversed)
    }

    /// The dimensions, row length first.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.n_dims]
    }

    /// Dimension `i`; 1 beyond the last.
    pub fn dim(&self, i: usize) -> u64 {
        self.dims[i]
    }

    /// Number of dimensions as given.
    pub fn n_dims(&self) -> usize {
        self.n_dims
    }

    /// Number of dimensions without trailing ones, at least 1 (`ggml_n_dims`).
    pub fn n_dims_effective(&self) -> usize {
        (1..MAX_DIMS).rev().find(|&i| self.dims[i] > 1).map_or(1, |i| i + 1)
    }

    /// Drops trailing dimensions of 1 except the first dimension, which gives the dimensions that `gguf.cpp`
    /// writes.
    pub fn without_trailing_ones(&self) -> Shape {
        let mut shape = *self;
        // Omitted dimensions are 1 in the array as well.
        while shape.n_dims > 1 && shape.dims[shape.n_dims - 1] == 1 {
            shape.n_dims -= 1;
        }
        shape
    }

    /// True if `dims`, row length first, are the dimensions of this shape. Omitted dimensions count as 1.
    pub fn matches(&self, dims: &[u64]) -> bool {
        let n = self.n_dims.max(dims.len());
        (0..n).all(|i| self.dims.get(i).unwrap_or(&1) == dims.get(i).unwrap_or(&1))
    }

    /// Elements in a row.
    pub fn row_elems(&self) -> u64 {
        self.dims[0]
    }

    /// Rows over all outer dimensions; 1 for a scalar or a vector.
    pub fn n_rows(&self) -> u64 {
        self.dims[1..].iter().product()
    }

    /// Total number of elements.
    pub fn n_elems(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Bytes of one row in `dtype`.
    ///
    /// # Errors
    /// [`ShapeError::PartialBlock`] or [`ShapeError::Overflow`].
    pub fn row_bytes(&self, dtype: DType) -> Result<u64, ShapeError> {
        let (row_elems, block_elems) = (self.row_elems(), dtype.block_elems());
        if !row_elems.is_multiple_of(block_elems) {
            return Err(ShapeError::PartialBlock { row_elems, block_elems, dtype });
        }
        (row_elems / block_elems).checked_mul(dtype.block_bytes()).ok_or_else(|| self.overflow())
    }

    /// Bytes of the tensor in `dtype`, without padding.
    ///
    /// # Errors
    /// [`ShapeError::PartialBlock`] or [`ShapeError::Overflow`].
    pub fn n_bytes(&self, dtype: DType) -> Result<u64, ShapeError> {
        self.row_bytes(dtype)?
            .checked_mul(self.n_rows())
            .filter(|n| i64::try_from(*n).is_ok())
            .ok_or_else(|| self.overflow())
    }

    fn overflow(&self) -> ShapeError {
        ShapeError::Overflow { dims: self.dims().to_vec() }
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.dims()).finish()
    }
}

impl fmt::Display for Shape {
    /// `[4096, 32000]`, row length first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// Bits per weight for `n_elems` weights in `n_bytes`, including scales; 0 without weights.
pub fn bits_per_weight(n_elems: u64, n_bytes: u64) -> f64 {
    if n_elems == 0 { 0.0 } else { n_bytes as f64 * 8.0 / n_elems as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_and_byte_counts() {
        let shape = Shape::from_row_major(&[3, 512]).unwrap();
        assert_eq!(shape.dims(), [512, 3]);
        assert_eq!(shape.n_bytes(DType::Q4_K), Ok(3 * 2 * 144));
        assert_eq!(shape.n_dims_effective(), 2);
        assert_eq!(Shape::new(&[]).unwrap().n_elems(), 1);
        assert_eq!(Shape::new(&[7, 1, 1]).unwrap().n_dims_effective(), 1);
        assert_eq!(Shape::new(&[0, 5]).unwrap().n_bytes(DType::F32), Ok(0));
        let kernel = Shape::from_row_major(&[2, 2, 1, 16, 48]).unwrap();
        assert_eq!((kernel.n_dims(), kernel.n_dims_effective(), kernel.n_rows()), (5, 5, 64));
        assert_eq!(kernel.n_bytes(DType::F32), Ok(4 * 2 * 2 * 16 * 48));
        let table = Shape::new(&[300, 6, 1]).unwrap();
        assert!(
            table.matches(&[300, 6]) && table.matches(&[300, 6, 1, 1, 1, 1]) && !table.matches(&[300, 6, 2])
        );
        assert!(kernel.matches(&[48, 16, 1, 2, 2]) && !kernel.matches(&[48, 16, 1, 2]));
        assert_eq!((table.n_dims(), table.without_trailing_ones().dims()), (3, &[300, 6][..]));
    }

    #[test]
    fn invalid_shapes_are_refused() {
        assert_eq!(Shape::new(&[1; 6]), Err(ShapeError::TooManyDims { found: 6 }));
        assert!(matches!(Shape::new(&[u64::MAX, 2]), Err(ShapeError::Overflow { .. })));
        assert!(matches!(Shape::new(&[1 << 63]), Err(ShapeError::Overflow { .. })));
        assert!(matches!(Shape::new(&[0, 1 << 40, 1 << 40]), Err(ShapeError::Overflow { .. })));
        let wide = Shape::new(&[1 << 62]).unwrap();
        assert!(matches!(wide.n_bytes(DType::F32), Err(ShapeError::Overflow { .. })));
        let odd = Shape::new(&[1152]).unwrap();
        let error = odd.n_bytes(DType::Q4_K).unwrap_err();
        assert_eq!(error.to_string(), "row length 1152 is not a multiple of the q4_K block size 256");
    }
}
