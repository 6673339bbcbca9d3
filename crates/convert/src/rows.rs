//! Where the rows of one output tensor come from, ready to be read by any thread.

use std::{borrow::Cow, ops::Range};

use arch::{ElementMap, RowMap, RowView};
use gguf::{Advice, Endian, TensorInfo};
use quant::Level;
use quant::round::{f16_to_f32, f32_to_f16};
use source::{Checkpoint, View};
use tensor::DType;

use crate::Error;
use crate::columns::{ColumnRows, PANEL_COLUMNS};
use crate::export::ExportRows;
use crate::packed::PackedRows;

/// The values of one output tensor: (n_rows, row_elems), row-major, wherever they come from.
///
/// Any range of rows can be read, in any order, from any thread; reading a range touches the
/// pages of that range only.
#[derive(Debug, Clone)]
pub enum TensorRows<'a> {
    /// Rows of tensors of a checkpoint.
    Checkpoint(CheckpointRows<'a>),
    /// Columns of a tensor of a checkpoint.
    Columns(ColumnRows<'a>),
    /// Blocks that a checkpoint holds in parts.
    Packed(PackedRows<'a>),
    /// Blocks of a tensor of a GGUF file.
    Gguf {
        /// The file.
        file: &'a gguf::File,
        /// One of its tensors.
        tensor: &'a TensorInfo,
    },
    /// Rows of a tensor of a GGUF file that are exported to a checkpoint.
    Export(ExportRows<'a>),
    /// Values that were computed; (n_rows, row_elems) with one row.
    Values(&'a [f32]),
}

/// Rows of tensors of a checkpoint, moved by a [`RowMap`] and changed by an [`ElementMap`].
#[derive(Debug, Clone)]
pub struct CheckpointRows<'a> {
    parts: Vec<Part<'a>>,
    map: RowMap,
    element: ElementMap,
    view: RowView,
}

/// Applies an element map to rows from `first_row` on, in the place of torch: what is stored as f16
/// (`half`) is rounded to it after every operation; other types are computed in single precision.
pub(crate) fn map_elements(
    element: ElementMap,
    half: bool,
    first_row: u64,
    row_elems: u64,
    values: &mut [f32],
) {
    if element == ElementMap::Identity {
        return;
    }
    let round = |value: f32| if half { f16_to_f32(f32_to_f16(value)) } else { value };
    for (row, values) in (first_row..).zip(values.chunks_mut(row_elems.max(1) as usize)) {
        for value in values {
            *value = element.apply(row, *value, round);
        }
    }
}

/// One source tensor, seen as rows of the output's length.
#[derive(Debug, Clone)]
struct Part<'a> {
    checkpoint: &'a Checkpoint,
    tensor: &'a source::Tensor,
    bytes: &'a [u8],
    /// Its dimensions, seen as rows: (n_rows, row_elems).
    shape: [u64; 2],
    /// The output row (before the map) at which it begins.
    first_row: u64,
}

/// Consecutive rows of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    part: usize,
    first_row: u64,
    n_rows: u64,
}

impl<'a> CheckpointRows<'a> {
    /// Rows of the tensors `names` of `checkpoint`, as many and as long as `view` says.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::RowsDiffer`] where the sources do not hold rows of
    /// that length, or fewer than the map asks for.
    pub fn new(
        checkpoint: &'a Checkpoint,
        tensor_name: &str,
        names: &[String],
        map: RowMap,
        element: ElementMap,
        view: RowView,
    ) -> Result<CheckpointRows<'a>, Error> {
        let mut parts = Vec::with_capacity(names.len());
        let mut first_row = 0;
        for name in names {
            let no_such = || Error::NoSuchTensor { name: name.clone(), wanted_by: tensor_name.to_owned() };
            let tensor = checkpoint.tensor(name).ok_or_else(no_such)?;
            let n_elems: u64 = tensor.shape.iter().product();
            if view.row_elems == 0 || !n_elems.is_multiple_of(view.row_elems) {
                return Err(Error::RowsDiffer {
                    tensor: tensor_name.to_owned(),
                    source_names: name.clone(),
                    found: n_elems,
                    expected: view.row_elems,
                    unit: "elements in whole rows",
                });
            }
            let n_rows = n_elems / view.row_elems;
            let bytes = checkpoint.view(tensor).bytes;
            parts.push(Part { checkpoint, tensor, bytes, shape: [n_rows, view.row_elems], first_row });
            first_row += n_rows;
        }
        let needed = map.n_source_rows(view.n_rows);
        let exact = !matches!(map, RowMap::Slice { .. });
        if needed > first_row || (exact && needed != first_row) {
            return Err(Error::RowsDiffer {
                tensor: tensor_name.to_owned(),
                source_names: names.join("`, `"),
                found: first_row,
                expected: needed,
                unit: "rows",
            });
        }
        Ok(CheckpointRows { parts, map, element, view })
    }

    /// The source rows behind output rows `rows`, in output order, as long runs as there are.
    fn runs(&self, rows: Range<u64>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut part = 0;
        for row in rows {
            let row = self.map.source_row(row, self.view.n_rows);
            let holds = |part: &Part<'_>| row >= part.first_row && row - part.first_row < part.shape[0];
            if !self.parts.get(part).is_some_and(holds) {
                // `new` has checked that every row is in some part.
                part = self.parts.iter().position(holds).unwrap_or_default();
            }
            let first_row = row - self.parts[part].first_row;
            match runs.last_mut() {
                Some(last) if last.part == part && last.first_row + last.n_rows == first_row => {
                    last.n_rows += 1;
                }
                _ => runs.push(Run { part, first_row, n_rows: 1 }),
            }
        }
        runs
    }

    fn read(&self, rows: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        let mut left = &mut *out;
        for run in self.runs(rows.clone()) {
            let (now, later) = left.split_at_mut((run.n_rows * self.view.row_elems) as usize);
            self.parts[run.part].read(&run, now)?;
            left = later;
        }
        let half = self.parts.iter().any(|part| part.tensor.dtype == source::Dtype::F16);
        map_elements(self.element, half, rows.start, self.view.row_elems, out);
        Ok(())
    }

    fn raw(&self, rows: Range<u64>) -> Cow<'a, [u8]> {
        let runs = self.runs(rows);
        match &runs[..] {
            [run] => Cow::Borrowed(self.parts[run.part].raw(run)),
            runs => {
                let pieces: Vec<&[u8]> = runs.iter().map(|run| self.parts[run.part].raw(run)).collect();
                Cow::Owned(pieces.concat())
            }
        }
    }

    fn advise(&self, rows: Range<u64>, advice: Advice) {
        let mut runs = self.runs(rows);
        runs.sort();
        let mut merged: Vec<Run> = Vec::new();
        for run in runs {
            match merged.last_mut() {
                Some(last) if last.part == run.part && last.first_row + last.n_rows == run.first_row => {
                    last.n_rows += run.n_rows;
                }
                _ => merged.push(run),
            }
        }
        for run in &merged {
            let part = &self.parts[run.part];
            let begin = part.tensor.begin as usize + part.offset(run.first_row);
            let end = part.tensor.begin as usize + part.offset(run.first_row + run.n_rows);
            part.checkpoint.parts[part.tensor.part].bytes.advise(advice, begin..end);
        }
    }

    /// The dtype whose stored bytes are those of every part, if there is one.
    fn dtype(&self) -> Option<DType> {
        if self.element != ElementMap::Identity {
            return None;
        }
        let first = self.parts.first()?.tensor.dtype;
        if self.parts.iter().any(|part| part.tensor.dtype != first) {
            return None;
        }
        match first {
            source::Dtype::F32 => Some(DType::F32),
            source::Dtype::F16 => Some(DType::F16),
            source::Dtype::BF16 => Some(DType::BF16),
            _ => None,
        }
    }
}

impl<'a> Part<'a> {
    /// Bytes before `row`.
    fn offset(&self, row: u64) -> usize {
        (self.bytes.len() as u64 / self.shape[0].max(1) * row) as usize
    }

    fn raw(&self, run: &Run) -> &'a [u8] {
        &self.bytes[self.offset(run.first_row)..self.offset(run.first_row + run.n_rows)]
    }

    fn read(&self, run: &Run, out: &mut [f32]) -> Result<(), Error> {
        let view =
            View { name: &self.tensor.name, dtype: self.tensor.dtype, shape: &self.shape, bytes: self.bytes };
        source::read_rows(&view, run.first_row, run.n_rows, out).map_err(Error::Read)
    }
}

impl<'a> TensorRows<'a> {
    /// How the elements fall into rows: those that ranges count.
    pub fn view(&self) -> RowView {
        match self {
            TensorRows::Checkpoint(rows) => rows.view,
            TensorRows::Columns(columns) => columns.view(),
            TensorRows::Packed(packed) => packed.view(),
            TensorRows::Gguf { tensor, .. } => {
                RowView { n_rows: tensor.shape.n_rows(), row_elems: tensor.shape.row_elems() }
            }
            TensorRows::Export(rows) => rows.view(),
            TensorRows::Values(values) => RowView { n_rows: 1, row_elems: values.len() as u64 },
        }
    }

    /// Rows that are best read together: a job that covers whole groups reads its source
    /// without holes.
    pub fn group_rows(&self) -> u64 {
        match self {
            TensorRows::Checkpoint(CheckpointRows { map: RowMap::RopePermute { n_head }, view, .. }) => {
                (view.n_rows / n_head.max(&1)).max(1)
            }
            TensorRows::Export(rows) => rows.group_rows(),
            _ => 1,
        }
    }

    /// Rows that a job takes at least, however long they are: fewer would leave the greater part
    /// of what is fetched from memory unused.
    pub fn least_rows(&self) -> u64 {
        match self {
            TensorRows::Columns(_) => PANEL_COLUMNS,
            TensorRows::Export(rows) => rows.least_rows(),
            _ => 1,
        }
    }

    /// Bytes of the input behind `n_rows` rows, for progress.
    pub fn input_bytes(&self, n_rows: u64) -> u64 {
        let view = self.view();
        let bits = match self {
            TensorRows::Checkpoint(rows) => rows.parts.first().map_or(32, |part| part.tensor.dtype.bits()),
            TensorRows::Columns(columns) => columns.elem_bits(),
            TensorRows::Packed(packed) => return packed.input_bytes(n_rows),
            TensorRows::Gguf { tensor, .. } => {
                return tensor.n_bytes / view.n_rows.max(1) * n_rows;
            }
            TensorRows::Export(rows) => return rows.input_bytes(n_rows),
            TensorRows::Values(_) => 32,
        };
        n_rows * view.row_elems * bits / 8
    }

    /// The dtype of which [`TensorRows::raw`] gives blocks; none where the values have to be
    /// read and encoded.
    pub fn raw_dtype(&self) -> Option<DType> {
        match self {
            TensorRows::Checkpoint(rows) => rows.dtype(),
            TensorRows::Gguf { file, tensor } => {
                (file.endian() == Endian::Little || tensor.dtype.block_bytes() == 1).then_some(tensor.dtype)
            }
            TensorRows::Export(rows) => rows.raw_dtype(),
            TensorRows::Packed(_) => Some(DType::MXFP4),
            TensorRows::Columns(_) | TensorRows::Values(_) => None,
        }
    }

    /// The stored bytes of rows `rows`, in output order, of the dtype [`TensorRows::raw_dtype`].
    ///
    /// # Errors
    /// [`Error::Gguf`]; never for a tensor of its own file.
    pub fn raw(&self, rows: Range<u64>) -> Result<Cow<'a, [u8]>, Error> {
        match self {
            TensorRows::Checkpoint(checkpoint) => Ok(checkpoint.raw(rows)),
            TensorRows::Gguf { file, tensor } => Ok(Cow::Borrowed(gguf_rows(file, tensor, rows)?)),
            TensorRows::Export(export) => export.raw(rows),
            TensorRows::Columns(columns) => columns.raw(rows),
            TensorRows::Packed(packed) => Ok(Cow::Owned(packed.raw(rows))),
            TensorRows::Values(values) => {
                Ok(Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect()))
            }
        }
    }

    /// Reads rows `rows` into `out`, which is (rows, row_elems) f32.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Encode`] where the stored type has no meaning as f32.
    pub fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        match self {
            TensorRows::Checkpoint(checkpoint) => checkpoint.read(rows, out),
            TensorRows::Columns(columns) => columns.read(rows, out),
            TensorRows::Packed(packed) => packed.read(rows, level, out),
            TensorRows::Gguf { file, tensor } => {
                let raw = gguf_rows(file, tensor, rows)?;
                let decode = |blocks: &[u8], out: &mut [f32]| {
                    quant::decode(tensor.dtype, level, blocks, out)
                        .map_err(|error| Error::Encode { tensor: tensor.name.clone(), error })
                };
                if file.endian() == Endian::Little {
                    decode(raw, out)
                } else {
                    let mut swapped = raw.to_vec();
                    if !gguf::swap_blocks(tensor.dtype, &mut swapped) {
                        return Err(Error::ForeignOrder { tensor: tensor.name.clone(), dtype: tensor.dtype });
                    }
                    decode(&swapped, out)
                }
            }
            TensorRows::Export(export) => export.read(rows, level, out),
            TensorRows::Values(values) => {
                let row_elems = values.len();
                out.copy_from_slice(&values[rows.start as usize * row_elems..rows.end as usize * row_elems]);
                Ok(())
            }
        }
    }

    /// Tells the system how the pages behind rows `rows` will be used.
    pub fn advise(&self, rows: Range<u64>, advice: Advice) {
        match self {
            TensorRows::Checkpoint(checkpoint) => checkpoint.advise(rows, advice),
            TensorRows::Columns(columns) => columns.advise(rows, advice),
            TensorRows::Packed(packed) => packed.advise(rows, advice),
            TensorRows::Gguf { file, tensor } => {
                let row_bytes = (tensor.n_bytes / tensor.shape.n_rows().max(1)) as usize;
                if let Ok(range) = file.range(tensor) {
                    let begin = range.start + rows.start as usize * row_bytes;
                    let end = range.start + rows.end as usize * row_bytes;
                    file.bytes().advise(advice, begin..end);
                }
            }
            TensorRows::Export(export) => export.advise(rows, advice),
            TensorRows::Values(_) => {}
        }
    }
}

fn gguf_rows<'a>(file: &'a gguf::File, tensor: &TensorInfo, rows: Range<u64>) -> Result<&'a [u8], Error> {
    let data = file.data(tensor).map_err(Error::Gguf)?;
    let row_bytes = data.len() / tensor.shape.n_rows().max(1) as usize;
    Ok(&data[rows.start as usize * row_bytes..rows.end as usize * row_bytes])
}
