//! Computed values.

use std::{borrow::Cow, ops::Range};

use gguf_layout::RowView;
use gguf_quant::Level;
use gguf_types::DType;

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
        // There is one row: a range contains it or is empty.
        let row_elems = self.0.len();
        out.copy_from_slice(&self.0[rows.start as usize * row_elems..rows.end as usize * row_elems]);
        Ok(())
    }

    fn stored(&self, _: DType, _: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        // An empty tensor has no rows to encode.
        Ok(self.0.is_empty().then_some(Cow::Borrowed(&[])))
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        n_rows * size_of_val(self.0) as u64
    }
}

#[derive(Debug, Clone, Copy)]
pub struct IntegerRows<'a> {
    pub values: &'a [i64],
    pub view: RowView,
    pub dtype: Option<DType>,
}

impl IntegerRows<'_> {
    fn of(&self, rows: Range<u64>) -> &[i64] {
        let row_elems = self.view.row_elems;
        &self.values[(rows.start * row_elems) as usize..(rows.end * row_elems) as usize]
    }
}

impl RowSource for IntegerRows<'_> {
    fn view(&self) -> RowView {
        self.view
    }

    fn read(&self, rows: Range<u64>, _: Level, out: &mut [f32]) -> Result<(), Error> {
        // Only for consumers that inspect values without writing them.
        for (out, value) in out.iter_mut().zip(self.of(rows)) {
            *out = *value as f32;
        }
        Ok(())
    }

    fn stored(&self, dtype: DType, rows: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        let values = self.of(rows).iter();
        Ok(match dtype {
            _ if self.dtype != Some(dtype) => None,
            DType::I64 => Some(values.flat_map(|value| value.to_le_bytes()).collect()),
            // `resolve` has checked that all fit.
            DType::I32 => Some(values.flat_map(|value| (*value as i32).to_le_bytes()).collect()),
            _ => None,
        })
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        n_rows * self.view.row_elems * size_of::<i64>() as u64
    }
}
