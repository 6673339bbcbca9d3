//! A tensor with the changes of all adapters, computed on reading.
//!
//! The tensor is treated as a matrix (n_rows, n_columns): its first dimension and the product of all others.
//! A kernel (out, in, height, width) is the matrix (out, in * height * width). A pair changes some rows:
//!
//! ```text
//! W[rows] += s (L @ R)       L = up[first..] (rows, r), R = down (r, n_columns)
//! W       += s D             for differences (`diff`), and the products of `products.rs`
//! ```
//!
//! Source: `Conv2d.get_delta_weight` and `Linear.get_delta_weight` in `tuners/lora/layer.py` of peft 0.21.2: a convolution with
//! `down` followed by one with `up` of size 1 is a convolution with the product of both matrices.

use std::ops::Range;

use gguf_checkpoint::{
    Dtype, Part, ReadError, Region, Span, Stored, Tensor, read_columns, read_regions, read_runs,
};

use super::products::Product;

/// A base tensor and its changes in order.
#[derive(Debug, Clone)]
pub(super) struct Patched {
    pub base: Tensor,
    /// Product of all dimensions but the first.
    pub n_columns: u64,
    pub patches: Vec<Patch>,
}

#[derive(Debug, Clone)]
pub(super) enum Patch {
    Pair {
        rows: Range<u64>,
        change: std::sync::Arc<Product>,
    },
    /// Adds `scale` times the elements of `values` from `first` on to these rows.
    Whole {
        rows: Range<u64>,
        values: Tensor,
        first: u64,
        scale: f32,
    },
}

impl Stored for Patched {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        read_columns(parts, &self.base, rows.clone(), columns.clone(), out)?;
        read_runs(self.base.row_elems(), rows, columns, out, |first, out| self.patch(parts, first, out))
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        self.base.spans(rows)
    }

    fn codes(&self) -> Option<Dtype> {
        self.base.stored.as_ref()?.codes()
    }

    fn panel_rows(&self) -> u64 {
        self.base.panel_rows()
    }

    fn description(&self) -> Option<String> {
        Some(format!("{}+lora", self.base.stored_as()))
    }
}

impl Patched {
    /// Adds all changes to `out`, which begins at element `first`.
    fn patch(&self, parts: &[Part], first: u64, out: &mut [f32]) -> Result<(), ReadError> {
        let end = first + out.len() as u64;
        for patch in &self.patches {
            let rows = match patch {
                Patch::Pair { rows, .. } | Patch::Whole { rows, .. } => rows,
            };
            // Requested elements of the changed rows.
            let begin = first.max(rows.start * self.n_columns);
            let stop = end.min(rows.end * self.n_columns);
            if begin >= stop {
                continue;
            }
            let out = &mut out[(begin - first) as usize..(stop - first) as usize];
            let begin = begin - rows.start * self.n_columns;
            match patch {
                Patch::Pair { change, .. } => {
                    read_regions(self.n_columns, begin, out, |Region { rows, columns }, out| {
                        change.add(parts, rows, columns, out)
                    })?;
                }
                Patch::Whole { values, first, scale, .. } => {
                    let mut added = vec![0.0; out.len()];
                    let begin = first + begin;
                    let elems = begin..begin + out.len() as u64;
                    read_columns(parts, &as_row(values), 0..1, elems, &mut added)?;
                    for (out, added) in out.iter_mut().zip(&added) {
                        *out += added * scale;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Views a plain tensor as one row.
pub(super) fn as_row(tensor: &Tensor) -> Tensor {
    reshaped(tensor, vec![tensor.shape.iter().product()])
}

/// Views a plain tensor with other dimensions of the same product.
pub(super) fn reshaped(tensor: &Tensor, shape: Vec<u64>) -> Tensor {
    let mut tensor = tensor.clone();
    tensor.shape = shape;
    tensor
}

/// Size of the first dimension.
pub(super) fn matrix_rows(tensor: &Tensor) -> u64 {
    tensor.shape.first().copied().unwrap_or(1)
}

/// Product of all dimensions but the first.
pub(super) fn matrix_columns(tensor: &Tensor) -> u64 {
    tensor.shape.iter().skip(1).product()
}

/// True if both have the same inputs and kernel size; sizes of 1 may be omitted.
pub(super) fn is_kernel(of_pair: &[u64], of_target: &[u64]) -> bool {
    let trimmed = |sizes: &[u64]| {
        let n_kept = sizes.iter().rposition(|size| *size != 1).map_or(0, |last| last + 1);
        sizes[..n_kept].to_vec()
    };
    trimmed(of_pair) == trimmed(of_target)
}
