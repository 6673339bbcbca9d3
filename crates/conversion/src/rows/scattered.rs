//! Rows of a checkpoint's tensor among rows of zeros.

use std::{collections::HashMap, ops::Range};

use gguf_layout::RowView;
use gguf_quant::Level;

use super::{CheckpointRows, RowSource, RowsFor};
use crate::error::Error;

/// A matrix of zeros in which some rows are those of a tensor.
#[derive(Debug, Clone)]
pub struct ScatteredRows<'a> {
    view: RowView,
    source: CheckpointRows<'a>,
    /// Rows of the source by rows of the output.
    source_rows: HashMap<u64, u64>,
}

impl<'a> ScatteredRows<'a> {
    /// Opens the rows of the tensor `name`; `rows` are their places in the output.
    pub fn new(request: RowsFor<'a>, name: &str, rows: &[u64]) -> Result<ScatteredRows<'a>, Error> {
        let view = RowView { n_rows: rows.len() as u64, ..request.view };
        let source = CheckpointRows::new(RowsFor { view, ..request }, &[name.to_owned()])?;
        let source_rows = rows.iter().copied().zip(0..).collect();
        Ok(ScatteredRows { view: request.view, source, source_rows })
    }
}

impl RowSource for ScatteredRows<'_> {
    fn view(&self) -> RowView {
        self.view
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        out.fill(0.0);
        for (row, values) in rows.zip(out.chunks_mut(self.view.row_elems.max(1) as usize)) {
            if let Some(row) = self.source_rows.get(&row) {
                self.source.read(*row..*row + 1, level, values)?;
            }
        }
        Ok(())
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        let all = self.source.input_bytes(self.source.view().n_rows);
        (u128::from(all) * u128::from(n_rows) / u128::from(self.view.n_rows.max(1))) as u64
    }
}
