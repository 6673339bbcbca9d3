//! Rows of a GGUF tensor on their way back to a checkpoint.

use std::{borrow::Cow, ops::Range};

use arch::{RowMap, RowView, back::BackTensor};
use gguf::{Advice, TensorInfo};
use quant::Level;
use tensor::DType;

use crate::{Error, TensorRows};

/// Rows of one GGUF tensor, moved back by the [`RowMap`] that led there.
#[derive(Debug, Clone)]
pub struct BackRows<'a> {
    file: &'a gguf::File,
    tensor: &'a TensorInfo,
    map: RowMap,
    first_row: u64,
    view: RowView,
}

impl<'a> BackRows<'a> {
    /// The rows of `back`, which lie in `tensor` of `file`.
    pub fn new(file: &'a gguf::File, tensor: &'a TensorInfo, back: &BackTensor) -> BackRows<'a> {
        let view = RowView { n_rows: back.shape.n_rows(), row_elems: back.shape.row_elems() };
        BackRows { file, tensor, map: back.rows, first_row: back.first_row, view }
    }

    /// How the elements fall into rows. A vector is one row, even where its elements move.
    pub fn view(&self) -> RowView {
        self.view
    }

    /// Rows of a head, which move among themselves.
    pub fn group_rows(&self) -> u64 {
        match self.map {
            RowMap::RopePermute { n_head } => (self.view.n_rows / n_head.max(1)).max(1),
            _ => 1,
        }
    }

    /// Bytes of the input behind `n_rows` rows.
    pub fn input_bytes(&self, n_rows: u64) -> u64 {
        self.stored().input_bytes(n_rows)
    }

    /// The stored type, where rows lie in the order of the output.
    pub fn raw_dtype(&self) -> Option<DType> {
        self.stored().raw_dtype().filter(|_| self.map == RowMap::Concat)
    }

    /// The stored bytes of rows `rows`; only where [`BackRows::raw_dtype`] gives a type.
    ///
    /// # Errors
    /// As [`TensorRows::raw`].
    pub fn raw(&self, rows: Range<u64>) -> Result<Cow<'a, [u8]>, Error> {
        self.stored().raw(self.at(rows))
    }

    /// Reads rows `rows` into `out`, which is (rows, row_elems) f32.
    ///
    /// # Errors
    /// As [`TensorRows::read`].
    pub fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let stored = self.stored();
        if self.map == RowMap::Concat {
            return stored.read(self.at(rows), level, out);
        }
        let RowView { n_rows, row_elems } = self.view;
        if n_rows == 1 {
            let mut values = vec![0.0; out.len()];
            stored.read(self.at(rows), level, &mut values)?;
            for (element, out) in out.iter_mut().enumerate() {
                *out = values[self.map.output_row(element as u64, row_elems) as usize];
            }
            return Ok(());
        }
        for (row, out) in rows.zip(out.chunks_exact_mut(row_elems.max(1) as usize)) {
            let row = self.map.output_row(row, n_rows);
            stored.read(self.at(row..row + 1), level, out)?;
        }
        Ok(())
    }

    /// Tells the system how the pages behind rows `rows` will be used. Rows of whole heads lie
    /// together in the file, if not in this order.
    pub fn advise(&self, rows: Range<u64>, advice: Advice) {
        self.stored().advise(self.at(rows), advice);
    }

    fn at(&self, rows: Range<u64>) -> Range<u64> {
        self.first_row + rows.start..self.first_row + rows.end
    }

    fn stored(&self) -> TensorRows<'a> {
        TensorRows::Gguf { file: self.file, tensor: self.tensor }
    }
}
