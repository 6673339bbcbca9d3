//! Values that were computed, not read.

use std::ops::Range;

use arch::RowView;
use quant::Level;

use super::RowSource;
use crate::error::Error;

/// Values in memory, as one row.
#[derive(Debug, Clone, Copy)]
pub struct ValueRows<'a>(pub &'a [f32]);

impl RowSource for ValueRows<'_> {
    fn view(&self) -> RowView {
        // Computed tensors are vectors: rope factors, class weights.
        RowView { n_rows: 1, row_elems: self.0.len() as u64 }
    }

    fn read(&self, rows: Range<u64>, _: Level, out: &mut [f32]) -> Result<(), Error> {
        // There is one row: a range is that one or none.
        let row_elems = self.0.len();
        out.copy_from_slice(&self.0[rows.start as usize * row_elems..rows.end as usize * row_elems]);
        Ok(())
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        n_rows * size_of_val(self.0) as u64
    }
}
