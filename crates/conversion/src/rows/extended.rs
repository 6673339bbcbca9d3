//! Rows of a checkpoint's tensors, and one more that is the product of two tensors.

use std::ops::Range;

use gguf_checkpoint::{Dtype, Tensor};
use gguf_layout::RowView;
use gguf_quant::Level;
use gguf_quant::round::{f16_to_f32, f32_to_f16};

use super::{CheckpointRows, RowSource, RowsFor};
use crate::error::Error;

/// Rows of tensors, concatenated, followed by `matrix vector`.
#[derive(Debug, Clone)]
pub struct ExtendedRows<'a> {
    taken: CheckpointRows<'a>,
    request: RowsFor<'a>,
    /// (row_elems, n_in).
    matrix: &'a Tensor,
    /// (n_in).
    vector: &'a Tensor,
    /// True if everything is rounded to F16, the type of the first tensor. The reference widens BF16 before
    /// it computes.
    in_f16: bool,
}

impl<'a> ExtendedRows<'a> {
    /// Opens the rows of the tensors `names`; the last two names are the matrix and the vector.
    pub fn new(request: RowsFor<'a>, names: &[String]) -> Result<ExtendedRows<'a>, Error> {
        let RowView { n_rows, row_elems } = request.view;
        let (taken, factors) = names.split_at(names.len().saturating_sub(2));
        let ([first, ..], [matrix, vector]) = (taken, factors) else {
            return Err(request.differs(&names.join("`, `"), names.len() as u64, 3, "tensors"));
        };
        let (first, matrix, vector) =
            (request.source(first)?, request.source(matrix)?, request.source(vector)?);
        if matrix.n_rows() != row_elems {
            return Err(request.differs(&matrix.name, matrix.n_rows(), row_elems, "rows"));
        }
        let n_in: u64 = vector.shape.iter().product();
        if matrix.row_elems() != n_in {
            return Err(request.differs(&matrix.name, matrix.row_elems(), n_in, "elements in a row"));
        }
        let view = RowView { n_rows: n_rows.saturating_sub(1), row_elems };
        let taken = CheckpointRows::new(RowsFor { view, ..request }, taken)?;
        Ok(ExtendedRows { taken, request, matrix, vector, in_f16: first.dtype == Dtype::F16 })
    }

    /// Writes `matrix vector`. torch does not define the order of the sums; these are rounded once.
    fn product(&self, out: &mut [f32]) -> Result<(), Error> {
        let checkpoint = self.request.checkpoint;
        let n_in = self.matrix.row_elems();
        let mut vector = vec![0.0; n_in as usize];
        checkpoint.read_rows(self.vector, n_in, 0..1, &mut vector).map_err(Error::Read)?;
        let mut row = vec![0.0; n_in as usize];
        for (index, out) in (0u64..).zip(out) {
            checkpoint.read_rows(self.matrix, n_in, index..index + 1, &mut row).map_err(Error::Read)?;
            let products = row.iter().zip(&vector).map(|(a, b)| f64::from(*a) * f64::from(*b));
            *out = products.sum::<f64>() as f32;
        }
        Ok(())
    }
}

impl RowSource for ExtendedRows<'_> {
    fn view(&self) -> RowView {
        self.request.view
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let RowView { n_rows, row_elems } = self.taken.view();
        let taken = rows.start.min(n_rows)..rows.end.min(n_rows);
        let (first, last) = out.split_at_mut(((taken.end - taken.start) * row_elems) as usize);
        if !first.is_empty() {
            self.taken.read(taken, level, first)?;
        }
        if !last.is_empty() {
            self.product(last)?;
        }
        if self.in_f16 {
            out.iter_mut().for_each(|value| *value = f16_to_f32(f32_to_f16(*value)));
        }
        Ok(())
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        self.taken.input_bytes(n_rows)
    }
}
