//! Rows of a GGUF file of a diffusion model with adapters, computed on reading.

use std::{borrow::Cow, ops::Range, sync::Arc};

use gguf_checkpoint::{Part, ReadError, Region, Span, Stored, Tensor, read_elements, read_runs};
use gguf_container::{Advice, File, TensorInfo};
use gguf_layout::RowView;
use gguf_quant::Level;
use gguf_types::DType;

use super::{GgufRows, RowSource};
use crate::error::Error;

/// A tensor of a GGUF file, as the storage of a tensor of a checkpoint.
#[derive(Debug)]
struct StoredInFile {
    file: Arc<File>,
    tensor: TensorInfo,
    /// Row length of the tensor, which may differ from that of the file ("original shape").
    row_elems: u64,
}

/// A tensor of `file` with the dimensions `shape` in torch's order, which must have the same number of elements.
pub fn as_checkpoint_tensor(file: &Arc<File>, tensor: &TensorInfo, shape: Vec<u64>) -> Tensor {
    let row_elems = shape.last().copied().unwrap_or(1);
    let stored = StoredInFile { file: Arc::clone(file), tensor: tensor.clone(), row_elems };
    Tensor::computed(tensor.name.clone(), shape, Arc::new(stored))
}

impl Stored for StoredInFile {
    fn read(&self, _: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        read_runs(self.row_elems, rows, columns, out, |first, out| self.read_run(first, out))
    }

    /// The file is not among the parts.
    fn spans(&self, _: Range<u64>) -> Vec<Span> {
        Vec::new()
    }

    fn description(&self) -> Option<String> {
        Some(self.tensor.dtype.name().to_owned())
    }
}

impl StoredInFile {
    /// Decodes elements from `first` on, in complete rows of the file.
    fn read_run(&self, first: u64, out: &mut [f32]) -> Result<(), ReadError> {
        let own = self.tensor.shape.row_elems().max(1);
        let rows = first / own..(first + out.len() as u64).div_ceil(own);
        let skipped = (first - rows.start * own) as usize;
        let source = GgufRows::new(&self.file, &self.tensor);
        let failed = |error: Error| ReadError::NoValue {
            tensor: self.tensor.name.clone(),
            row: rows.start,
            expected: "values that can be decoded",
            found: error.to_string(),
        };
        let n_elems = ((rows.end - rows.start) * own) as usize;
        if n_elems == out.len() {
            return source.read(rows.clone(), Level::detect(), out).map_err(failed);
        }
        let mut values = vec![0.0; n_elems];
        source.read(rows.clone(), Level::detect(), &mut values).map_err(failed)?;
        out.copy_from_slice(&values[skipped..][..out.len()]);
        Ok(())
    }
}

/// Rows of a tensor into which adapters are merged, divided like those of the file. Never returns stored blocks.
#[derive(Debug, Clone, Copy)]
pub struct MergedRows<'a> {
    pub base: GgufRows<'a>,
    /// Files of the adapters.
    pub parts: &'a [Part],
    pub tensor: &'a Tensor,
}

impl RowSource for MergedRows<'_> {
    fn view(&self) -> RowView {
        self.base.view()
    }

    fn read(&self, rows: Range<u64>, _: Level, out: &mut [f32]) -> Result<(), Error> {
        let row_elems = self.view().row_elems;
        let elems = rows.start * row_elems..rows.end * row_elems;
        read_elements(self.parts, self.tensor, elems, out).map_err(Error::Read)
    }

    fn stored(&self, _: DType, _: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        Ok(None)
    }

    fn advise(&self, rows: Range<u64>, advice: Advice) {
        self.base.advise(rows, advice);
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        self.base.input_bytes(n_rows)
    }
}
