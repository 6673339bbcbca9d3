//! Rows of a checkpoint's tensors: moved or stacked, never divided.

use std::{borrow::Cow, ops::Range, sync::OnceLock};

use gguf_container::Advice;
use gguf_layout::{ElementMap, RowMap, RowView, SourceRows};
use gguf_quant::Level;
use gguf_types::DType;

use super::{Granularity, RowSource, RowsFor, elements::map_elements};
use crate::error::Error;

/// Rows of tensors of a checkpoint, moved by a [`RowMap`] and changed by an [`ElementMap`].
#[derive(Debug, Clone)]
pub struct CheckpointRows<'a> {
    request: RowsFor<'a>,
    source_rows: SourceRows,
    parts: Vec<Part<'a>>,
    /// Bytes of all parts in their files.
    n_bytes: u64,
    /// The element map with the tensor's mean, for maps that need it.
    with_mean: OnceLock<ElementMap>,
}

/// Number of elements that are read at once for the mean of a tensor.
const MEAN_ELEMS: u64 = 1 << 20;

/// A source tensor, viewed as rows of the output's length.
#[derive(Debug, Clone)]
struct Part<'a> {
    checkpoint: &'a gguf_checkpoint::Checkpoint,
    tensor: &'a gguf_checkpoint::Tensor,
    /// Dimensions as rows: (n_rows, row_elems).
    shape: [u64; 2],
    /// Its first source row, counted over all parts.
    first_row: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// Index of the part; the number of parts for rows of zeros.
    part: usize,
    first_row: u64,
    n_rows: u64,
}

impl<'a> CheckpointRows<'a> {
    /// Rows of the tensors `names`, concatenated.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::RowsDiffer`] if the sources do not have rows of the required length,
    /// or fewer than the map needs.
    pub fn new(request: RowsFor<'a>, names: &[String]) -> Result<CheckpointRows<'a>, Error> {
        // A map that moves pieces of rows counts pieces as rows.
        let row_elems = request.view.row_elems / request.map.pieces();
        let mut parts = Vec::with_capacity(names.len());
        let mut first_row = 0;
        for name in names {
            let tensor = request.source(name)?;
            let n_elems: u64 = tensor.shape.iter().product();
            // The dimensions of the source do not matter, but output rows must not cross from one source into
            // the next: a stack of experts is many rows of each.
            if row_elems == 0 || !n_elems.is_multiple_of(row_elems) {
                return Err(request.differs(name, n_elems, row_elems, "elements in whole rows"));
            }
            let n_rows = n_elems / row_elems;
            let checkpoint = request.checkpoint;
            parts.push(Part { checkpoint, tensor, shape: [n_rows, row_elems], first_row });
            // Rows of zeros after a source are not read.
            first_row += match request.map {
                RowMap::PadEach { to } if n_rows <= to => to,
                _ => n_rows,
            };
        }
        let source_rows = request.source_rows();
        let needed = source_rows.n_source_rows();
        // A slice may leave rows over; every other map uses all of its source.
        let exact = !matches!(request.map, RowMap::Slice { .. });
        if needed > first_row || (exact && needed != first_row) {
            return Err(request.differs(&names.join("`, `"), first_row, needed, "rows"));
        }
        let n_bytes = parts.iter().map(|part| part.checkpoint.stored_bytes(part.tensor)).sum();
        Ok(CheckpointRows { request, source_rows, parts, n_bytes, with_mean: OnceLock::new() })
    }

    /// The element map. One that needs the mean reads the tensor at the first call.
    fn element(&self) -> Result<ElementMap, Error> {
        let element = self.request.element;
        if !element.needs_mean() {
            return Ok(element);
        }
        if let Some(element) = self.with_mean.get() {
            return Ok(*element);
        }
        let (mut sum, mut n_elems, mut values) = (0.0, 0, Vec::new());
        for (index, part) in self.parts.iter().enumerate() {
            let [n_rows, row_elems] = part.shape;
            let step = (MEAN_ELEMS / row_elems.max(1)).max(1);
            for first_row in (0..n_rows).step_by(step as usize) {
                let n_rows = step.min(n_rows - first_row);
                values.clear();
                values.resize((n_rows * row_elems) as usize, 0.0);
                part.read(&Run { part: index, first_row, n_rows }, &mut values)?;
                let magnitudes = matches!(element, ElementMap::Ternary { .. });
                sum += values
                    .iter()
                    .map(|value| f64::from(if magnitudes { value.abs() } else { *value }))
                    .sum::<f64>();
                n_elems += values.len() as u64;
            }
        }
        let stored_bf16 = self.parts.iter().all(|part| part.tensor.dtype == gguf_checkpoint::Dtype::BF16);
        Ok(*self.with_mean.get_or_init(|| element.with_sum(sum, n_elems, stored_bf16)))
    }

    /// Source rows for output rows `rows`, in output order, merged into the longest runs.
    fn runs(&self, rows: Range<u64>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut part = 0;
        let pieces = self.request.map.pieces();
        for row in rows.start * pieces..rows.end * pieces {
            let row = self.source_rows.source_row(row);
            let holds = |part: &Part<'_>| row >= part.first_row && row - part.first_row < part.shape[0];
            // Neighbors are mostly in the same part, so the search is rare.
            if !self.parts.get(part).is_some_and(holds) {
                // `new` has checked that every row is in some part, except rows of zeros.
                part = self.parts.iter().position(holds).unwrap_or(self.parts.len());
            }
            let first_row = row - self.parts.get(part).map_or(0, |part| part.first_row);
            match runs.last_mut() {
                Some(last) if last.part == part && part == self.parts.len() => last.n_rows += 1,
                Some(last) if last.part == part && last.first_row + last.n_rows == first_row => {
                    last.n_rows += 1;
                }
                _ => runs.push(Run { part, first_row, n_rows: 1 }),
            }
        }
        runs
    }

    /// Codes of the checkpoint as blocks of `dtype` with the same values.
    fn repacked(&self, dtype: DType, rows: Range<u64>) -> Result<Cow<'_, [u8]>, Error> {
        let (mut blocks, mut whole, mut current) = (Vec::new(), Vec::new(), None);
        let (block_elems, block_bytes) = (dtype.block_elems(), dtype.block_bytes());
        let n_bytes = |n_elems: u64| (n_elems / block_elems * block_bytes) as usize;
        for run in self.runs(rows) {
            let part = &self.parts[run.part];
            // Rows here may be pieces of the tensor's own rows, or several rows; all consist of complete
            // blocks.
            let own = part.tensor.row_elems().max(1);
            let elems = run.first_row * part.shape[1]..(run.first_row + run.n_rows) * part.shape[1];
            let rows = elems.start / own..elems.end.div_ceil(own);
            // Pieces of one row are consecutive, in another order.
            if current.as_ref() != Some(&(run.part, rows.clone())) {
                whole.clear();
                part.checkpoint.repack(part.tensor, dtype, rows.clone(), &mut whole).map_err(Error::Read)?;
                current = Some((run.part, rows.clone()));
            }
            let first = rows.start * own;
            blocks.extend_from_slice(&whole[n_bytes(elems.start - first)..n_bytes(elems.end - first)]);
        }
        Ok(Cow::Owned(blocks))
    }

    /// Dtype of the stored blocks, if all parts share one.
    fn stored_dtype(&self) -> Option<DType> {
        if self.request.element != ElementMap::Identity {
            return None;
        }
        let first = self.parts.first()?.tensor.dtype;
        if self.parts.iter().any(|part| part.tensor.dtype != first || part.tensor.stored.is_some()) {
            return None;
        }
        match first {
            gguf_checkpoint::Dtype::F32 => Some(DType::F32),
            gguf_checkpoint::Dtype::F16 => Some(DType::F16),
            gguf_checkpoint::Dtype::BF16 => Some(DType::BF16),
            _ => None,
        }
    }
}

impl RowSource for CheckpointRows<'_> {
    fn view(&self) -> RowView {
        self.request.view
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let row_elems = self.request.view.row_elems;
        if let Some(dtype) = self.request.stored_dtype {
            // Only the value of the blocks: the checkpoint's tensor may have an additional scale, which is a
            // separate output tensor.
            let blocks = self.repacked(dtype, rows)?;
            return gguf_quant::decode(dtype, level, &blocks, out)
                .map_err(|error| Error::Encode { tensor: self.request.tensor.to_owned(), error });
        }
        let mut left = &mut *out;
        let piece = row_elems / self.request.map.pieces();
        for run in self.runs(rows.clone()) {
            let (now, later) = left.split_at_mut((run.n_rows * piece) as usize);
            match self.parts.get(run.part) {
                Some(part) => part.read(&run, now)?,
                None => now.fill(0.0),
            }
            left = later;
        }
        let half = self.parts.iter().any(|part| part.tensor.dtype == gguf_checkpoint::Dtype::F16);
        map_elements(self.element()?, half, rows.start, row_elems, out);
        Ok(())
    }

    fn stored(&self, dtype: DType, rows: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        if self.request.stored_dtype == Some(dtype) {
            return self.repacked(dtype, rows).map(Some);
        }
        if self.stored_dtype() != Some(dtype) {
            return Ok(None);
        }
        let runs = self.runs(rows);
        Ok(Some(match &runs[..] {
            // Contiguous rows are written directly from the map.
            [run] if run.part < self.parts.len() => self.parts[run.part].raw(run)?,
            runs => {
                let row_bytes = self.request.view.row_elems / self.request.map.pieces() * dtype.block_bytes();
                let mut bytes = Vec::new();
                for run in runs {
                    match self.parts.get(run.part) {
                        Some(part) => bytes.extend_from_slice(&part.raw(run)?),
                        // Zero bytes are zero in every type that is stored this way.
                        None => bytes.resize(bytes.len() + (run.n_rows * row_bytes) as usize, 0),
                    }
                }
                Cow::Owned(bytes)
            }
        }))
    }

    fn advise(&self, rows: Range<u64>, advice: Advice) {
        // In file order and merged: only complete pages can be released, and a run of a permuted head is much
        // smaller than a page.
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
            let Some(part) = self.parts.get(run.part) else { continue };
            let rows = run.first_row..run.first_row + run.n_rows;
            part.checkpoint.advise_rows(part.tensor, part.shape[1], rows, advice);
        }
    }

    fn all_done(&self) {
        let in_panels = |part: &&Part<'_>| part.checkpoint.panel_rows(part.tensor, part.shape[1]) > 1;
        for part in self.parts.iter().filter(in_panels).filter(|part| !part.checkpoint.is_fetched()) {
            part.checkpoint.advise_whole(part.tensor, Advice::DoneWith);
        }
    }

    fn is_fetched(&self) -> bool {
        self.request.checkpoint.is_fetched()
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        // Average per row: codes and scales of a quantized tensor have no fixed size per row.
        let pieces: u64 = self.parts.iter().map(|part| part.shape[0]).sum();
        let all_rows = pieces / self.request.map.pieces();
        (u128::from(self.n_bytes) * u128::from(n_rows) / u128::from(all_rows.max(1))) as u64
    }

    fn granularity(&self) -> Granularity {
        let group_rows = match self.request.map {
            // Rows move within a head, so the rows of complete heads are contiguous in the source.
            RowMap::RopePermute { n_head } => (self.request.view.n_rows / n_head.max(1)).max(1),
            RowMap::RopeHalves { head, .. } => head.max(1),
            _ => 1,
        };
        let panel_rows = self.parts.iter().map(|part| part.checkpoint.panel_rows(part.tensor, part.shape[1]));
        Granularity { group_rows, least_rows: panel_rows.max().unwrap_or(1) }
    }
}

impl<'a> Part<'a> {
    /// Byte range of rows, counted from the start of the tensor.
    fn range(&self, run: &Run) -> Range<u64> {
        let row_bytes = self.tensor.n_bytes() / self.shape[0].max(1);
        run.first_row * row_bytes..(run.first_row + run.n_rows) * row_bytes
    }

    fn raw(&self, run: &Run) -> Result<Cow<'a, [u8]>, Error> {
        self.checkpoint.part_of(self.tensor).bytes_of(self.tensor, self.range(run)).map_err(Error::Read)
    }

    fn read(&self, run: &Run, out: &mut [f32]) -> Result<(), Error> {
        let rows = run.first_row..run.first_row + run.n_rows;
        self.checkpoint.read_rows(self.tensor, self.shape[1], rows, out).map_err(Error::Read)
    }
}
