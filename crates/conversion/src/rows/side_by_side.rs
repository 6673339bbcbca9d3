//! Rows of several tensors of a checkpoint, next to each other.

use std::ops::Range;

use gguf_layout::RowView;
use gguf_quant::Level;

use super::{CheckpointRows, RowSource, RowsFor};
use crate::error::Error;

/// A matrix whose rows are the concatenated rows of several matrices.
#[derive(Debug, Clone)]
pub struct SideBySideRows<'a> {
    view: RowView,
    parts: Vec<CheckpointRows<'a>>,
}

impl<'a> SideBySideRows<'a> {
    /// Opens the rows of the tensors `names`, from left to right.
    pub fn new(request: RowsFor<'a>, names: &[String]) -> Result<SideBySideRows<'a>, Error> {
        let RowView { n_rows, row_elems } = request.view;
        let part = |name: &String| {
            let view = RowView { n_rows, row_elems: request.source(name)?.row_elems() };
            CheckpointRows::new(RowsFor { view, ..request }, std::slice::from_ref(name))
        };
        let parts = names.iter().map(part).collect::<Result<Vec<_>, Error>>()?;
        let found = parts.iter().map(|part| part.view().row_elems).sum();
        if found != row_elems {
            return Err(request.differs(&names.join("`, `"), found, row_elems, "elements in a row"));
        }
        Ok(SideBySideRows { view: request.view, parts })
    }
}

impl RowSource for SideBySideRows<'_> {
    fn view(&self) -> RowView {
        self.view
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let width = self.view.row_elems.max(1) as usize;
        let mut start = 0;
        for part in &self.parts {
            let part_width = part.view().row_elems as usize;
            let mut values = vec![0.0; (rows.end - rows.start) as usize * part_width];
            part.read(rows.clone(), level, &mut values)?;
            let places = out.chunks_mut(width).map(|row| &mut row[start..start + part_width]);
            places.zip(values.chunks(part_width.max(1))).for_each(|(place, row)| place.copy_from_slice(row));
            start += part_width;
        }
        Ok(())
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        self.parts.iter().map(|part| part.input_bytes(n_rows)).sum()
    }
}
