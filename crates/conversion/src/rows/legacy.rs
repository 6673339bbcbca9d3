//! Rows of a tensor of a model from before GGUF.

use std::{borrow::Cow, ops::Range};

use gguf_checkpoint::{Blocks, LegacyModel, LegacyTensor};
use gguf_container::Advice;
use gguf_layout::RowView;
use gguf_quant::Level;
use gguf_types::DType;

use super::RowSource;
use crate::error::Error;

/// A tensor of a ggml, ggmf or ggjt file, complete or in parts.
#[derive(Debug, Clone, Copy)]
pub struct LegacyRows<'a> {
    model: &'a LegacyModel,
    tensor: &'a LegacyTensor,
}

impl<'a> LegacyRows<'a> {
    /// Rows of `tensor`, which must belong to `model`.
    pub fn new(model: &'a LegacyModel, tensor: &'a LegacyTensor) -> LegacyRows<'a> {
        LegacyRows { model, tensor }
    }
}

impl RowSource for LegacyRows<'_> {
    fn view(&self) -> RowView {
        RowView { n_rows: self.tensor.n_rows.unwrap_or(1), row_elems: self.tensor.row_elems }
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let blocks = self.model.blocks(self.tensor, rows).map_err(Error::Read)?;
        match self.tensor.blocks {
            Blocks::Today(dtype) => {
                let tensor = || self.tensor.name.clone();
                gguf_quant::decode(dtype, level, &blocks, out)
                    .map_err(|error| Error::Encode { tensor: tensor(), error })?;
            }
            Blocks::Old(old) => old.decode(&blocks, out),
        }
        Ok(())
    }

    fn stored(&self, dtype: DType, rows: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        if self.tensor.current_dtype != Some(dtype) {
            return Ok(None);
        }
        self.model.current_blocks(self.tensor, rows).map_err(Error::Read)
    }

    fn advise(&self, rows: Range<u64>, advice: Advice) {
        self.model.advise(self.tensor, rows, advice);
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        self.tensor.row_bytes() * n_rows
    }
}
