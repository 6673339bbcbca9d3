//! Rows of a tensor of a GGUF file, in either byte order.

use std::{borrow::Cow, ops::Range};

use gguf_container::{Advice, File, TensorInfo};
use gguf_layout::RowView;
use gguf_quant::Level;
use gguf_types::DType;

use super::RowSource;
use crate::error::Error;

/// A tensor of a GGUF file.
#[derive(Debug, Clone, Copy)]
pub struct GgufRows<'a> {
    file: &'a File,
    tensor: &'a TensorInfo,
}

impl<'a> GgufRows<'a> {
    /// Rows of `tensor`, which must belong to `file`.
    pub fn new(file: &'a File, tensor: &'a TensorInfo) -> GgufRows<'a> {
        GgufRows { file, tensor }
    }

    /// Bytes of a row. The header was checked: rows consist of complete blocks.
    fn row_bytes(&self) -> u64 {
        self.tensor.n_bytes / self.tensor.shape.n_rows().max(1)
    }

    /// The blocks of rows `rows`, in the byte order of the file.
    fn blocks(&self, rows: Range<u64>) -> Result<&'a [u8], Error> {
        let data = self.file.data(self.tensor)?;
        let row_bytes = self.row_bytes();
        Ok(&data[(rows.start * row_bytes) as usize..(rows.end * row_bytes) as usize])
    }
}

impl RowSource for GgufRows<'_> {
    fn view(&self) -> RowView {
        RowView { n_rows: self.tensor.shape.n_rows(), row_elems: self.tensor.shape.row_elems() }
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let (blocks, dtype) = (self.blocks(rows)?, self.tensor.dtype);
        // Kernels support only little endian.
        let blocks = self.file.endian().to_little(dtype, blocks);
        gguf_quant::decode(dtype, level, &blocks, out)
            .map_err(|error| Error::Encode { tensor: self.tensor.name.clone(), error })
    }

    fn stored(&self, dtype: DType, rows: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        if self.tensor.dtype != dtype {
            return Ok(None);
        }
        Ok(Some(self.file.endian().to_little(dtype, self.blocks(rows)?)))
    }

    fn advise(&self, rows: Range<u64>, advice: Advice) {
        // A tensor of another file has no range to advise.
        if let Ok(range) = self.file.range(self.tensor) {
            let place = |row: u64| range.start + (row * self.row_bytes()) as usize;
            self.file.bytes().advise(advice, place(rows.start)..place(rows.end));
        }
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        self.row_bytes() * n_rows
    }
}
