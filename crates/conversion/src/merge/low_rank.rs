//! Rows of a base tensor with an adapter's change, computed on reading.
//!
//! With W (n_rows, n_columns) of the base model and a pair of rank r, as factors L (n_rows, r) and R (r,
//! n_columns):
//!
//! ```text
//! W' = W + s (L @ R)                     LoRA
//! W' = m / |W0 + s (L @ R)| * (W + s (L @ R))   DoRA; the norm over all inputs of an output, W0 without other adapters
//! ```
//!
//! L is B and R is A if rows are outputs; if they are inputs (embeddings, Conv1D), L is A transposed and R is
//! B transposed. A pair for a stack of experts contains one pair per expert, consecutively ([`Factor`]). All
//! values are f32 and each operation is rounded once; `L @ R` is a chain of fused multiply-adds from rank 0
//! up, as torch computes it on a CPU for ranks up to 192 (torch 2.15 with MKL; beyond that it adds partial
//! sums). The norm is summed in f64.
//!
//! Source: `Linear.get_delta_weight`, `Embedding.get_delta_weight` in `tuners/lora/layer.py`,
//! `DoraLinearVariant` in `tuners/lora/variants.py` and `DoraLinearLayer.get_weight_norm` in
//! `tuners/lora/dora.py` of peft 0.21.2.

use std::{ops::Range, sync::OnceLock};

use gguf_checkpoint::{Part, ReadError, Region, Span, Stored, Tensor, read_columns};
use gguf_quant::Level;

/// Number of columns of R that are read at once: 16 kB for rank 16.
const TILE: usize = 256;

/// Number of columns whose sums stay in registers.
const LANES: usize = 32;

/// Number of elements that are read at once for a norm.
const NORM_ELEMS: u64 = 256 * 1024;

#[derive(Debug)]
pub(super) enum Change {
    /// `s (L @ R)`, with separate factors for each matrix of a stack.
    LowRank { left: Factor, right: Factor, rank: usize, scale: f32, matrix_rows: u64 },
    /// `s v` for a bias v.
    Vector { values: Tensor, scale: f32 },
    /// Replacement of some rows by rows of `values`: (row, row of `values`), ascending.
    Rows { values: Tensor, places: Vec<[u64; 2]> },
    /// A matrix of the file.
    Matrix { values: Tensor },
}

/// A tensor of a pair, or of the pairs of several matrices. One of its two dimensions is the rank, which it
/// shares with the other tensor of the pair. Rank k of matrix e is at `first + e * matrix_step + k * step`.
#[derive(Debug)]
pub(super) struct Factor {
    pub tensor: Tensor,
    /// True if the rank is the first dimension.
    pub rank_first: bool,
    pub first: u64,
    pub step: u64,
    pub matrix_step: u64,
    /// Start of the base tensor along the other dimension.
    pub offset: u64,
    /// Core of a Tucker decomposition (rank, rank * kernel), which extends `tensor` (rank, inputs) to the elements of a kernel.
    pub core: Option<Box<Tensor>>,
}

/// Magnitudes, one per output.
#[derive(Debug)]
pub(super) struct Dora {
    /// (n_outputs).
    pub magnitude: Tensor,
    /// True if outputs are rows of the base tensor, false if they are its columns.
    pub outputs_are_rows: bool,
    /// The base tensor without other adapters.
    pub unmerged: Tensor,
    /// True if the change is added to `unmerged`.
    pub is_first: bool,
    /// `m / |W0 + s (L @ R)|` of all outputs, computed on first use.
    pub factors: OnceLock<Result<Vec<f32>, ReadError>>,
}

#[derive(Debug)]
pub(super) struct Merged {
    pub base: Tensor,
    pub change: Change,
    pub dora: Option<Dora>,
}

impl Stored for Merged {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        read_columns(parts, &self.base, rows.clone(), columns.clone(), out)?;
        self.change.add(parts, rows.clone(), columns.clone(), out)?;
        match &self.dora {
            Some(dora) => self.scale_outputs(dora, parts, rows, columns, out),
            None => Ok(()),
        }
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        self.base.spans(rows)
    }

    fn panel_rows(&self) -> u64 {
        self.base.panel_rows()
    }

    fn description(&self) -> Option<String> {
        let kind = match self.change {
            Change::Rows { .. } => "tokens",
            _ if self.dora.is_some() => "dora",
            _ => "lora",
        };
        Some(format!("{}+{kind}", self.base.stored_as()))
    }
}

impl Merged {
    /// Multiplies outputs by their magnitude over their norm.
    fn scale_outputs(
        &self,
        dora: &Dora,
        parts: &[Part],
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        let n_columns = (columns.end - columns.start) as usize;
        let is_whole_row = n_columns as u64 == self.base.row_elems();
        // Complete rows of outputs give their norm themselves.
        if dora.outputs_are_rows && is_whole_row && dora.is_first {
            let mut magnitude = vec![0.0; (rows.end - rows.start) as usize];
            read_columns(parts, &dora.magnitude, 0..1, rows, &mut magnitude)?;
            for (row, magnitude) in out.chunks_exact_mut(n_columns.max(1)).zip(magnitude) {
                let sum: f64 = row.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
                let factor = magnitude / sum.sqrt() as f32;
                row.iter_mut().for_each(|value| *value *= factor);
            }
            return Ok(());
        }
        let factors =
            dora.factors.get_or_init(|| self.factors(dora, parts)).as_ref().map_err(Clone::clone)?;
        for (row, out) in rows.zip(out.chunks_exact_mut(n_columns.max(1))) {
            if dora.outputs_are_rows {
                out.iter_mut().for_each(|value| *value *= factors[row as usize]);
            } else {
                let factors = &factors[columns.start as usize..columns.end as usize];
                out.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
            }
        }
        Ok(())
    }

    /// `m / |W0 + s (L @ R)|` of all outputs: one pass over the tensor.
    fn factors(&self, dora: &Dora, parts: &[Part]) -> Result<Vec<f32>, ReadError> {
        let (n_rows, n_columns) = (self.base.n_rows(), self.base.row_elems());
        let n_outputs = if dora.outputs_are_rows { n_rows } else { n_columns };
        let mut squares = vec![0.0f64; n_outputs as usize];
        let step = (NORM_ELEMS / n_columns.max(1)).max(1);
        let mut buffer = Vec::new();
        for first in (0..n_rows).step_by(step as usize) {
            let rows = first..n_rows.min(first + step);
            buffer.resize(((rows.end - rows.start) * n_columns) as usize, 0.0);
            read_columns(parts, &dora.unmerged, rows.clone(), 0..n_columns, &mut buffer)?;
            self.change.add(parts, rows.clone(), 0..n_columns, &mut buffer)?;
            for (row, values) in rows.zip(buffer.chunks_exact(n_columns.max(1) as usize)) {
                let square = |value: &f32| f64::from(*value) * f64::from(*value);
                if dora.outputs_are_rows {
                    squares[row as usize] = values.iter().map(square).sum();
                } else {
                    squares.iter_mut().zip(values).for_each(|(sum, value)| *sum += square(value));
                }
            }
        }
        let mut factors = vec![0.0; n_outputs as usize];
        read_columns(parts, &dora.magnitude, 0..1, 0..n_outputs, &mut factors)?;
        for (factor, sum) in factors.iter_mut().zip(squares) {
            *factor /= sum.sqrt() as f32;
        }
        Ok(factors)
    }
}

impl Change {
    /// Adds columns `columns` of rows `rows` to `out`, which is (rows, columns) f32.
    pub(super) fn add(
        &self,
        parts: &[Part],
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        let n_columns = (columns.end - columns.start) as usize;
        if out.is_empty() {
            return Ok(());
        }
        match self {
            Change::Vector { values, scale } => {
                let mut added = vec![0.0; n_columns];
                read_columns(parts, values, 0..1, columns, &mut added)?;
                for (out, added) in out.iter_mut().zip(&added) {
                    *out += added * scale;
                }
            }
            Change::Rows { values, places } => {
                let from = places.partition_point(|[row, _]| *row < rows.start);
                for [row, place] in places[from..].iter().take_while(|[row, _]| *row < rows.end) {
                    let out = &mut out[(row - rows.start) as usize * n_columns..][..n_columns];
                    read_columns(parts, values, *place..place + 1, columns.clone(), out)?;
                }
            }
            Change::Matrix { values } => {
                let mut added = vec![0.0; out.len()];
                read_columns(parts, values, rows, columns, &mut added)?;
                out.iter_mut().zip(added).for_each(|(out, added)| *out += added);
            }
            Change::LowRank { left, right, rank, scale, matrix_rows } => {
                let (mut row, mut out) = (rows.start, out);
                // One matrix of the stack at a time.
                while row < rows.end {
                    let (matrix, first) = (row / matrix_rows, row % matrix_rows);
                    let n_rows = (rows.end - row).min(matrix_rows - first);
                    let (now, later) = out.split_at_mut(n_rows as usize * n_columns);
                    // (rows, rank)
                    let left = left.read(parts, matrix, first..first + n_rows, *rank, false)?;
                    for first in (0..n_columns).step_by(TILE) {
                        let width = TILE.min(n_columns - first);
                        let begin = columns.start + first as u64;
                        // (rank, width)
                        let right = right.read(parts, matrix, begin..begin + width as u64, *rank, true)?;
                        let tile = Tile { right: &right, rank: *rank, width, scale: *scale };
                        Level::detect().vectorize(
                            #[inline(always)]
                            || {
                                for row in 0..n_rows as usize {
                                    let left = &left[row * rank..][..*rank];
                                    tile.add(left, &mut now[row * n_columns + first..][..width]);
                                }
                            },
                        );
                    }
                    (row, out) = (row + n_rows, later);
                }
            }
        }
        Ok(())
    }
}

pub(crate) struct Tile<'a> {
    /// (rank, width).
    pub right: &'a [f32],
    pub rank: usize,
    pub width: usize,
    pub scale: f32,
}

impl Tile<'_> {
    /// `out[c] += s * sum_k left[k] * right[k][c]`; the sum is a chain of fused operations.
    #[inline(always)]
    pub(crate) fn add(&self, left: &[f32], out: &mut [f32]) {
        let (lanes, rest) = out.as_chunks_mut::<LANES>();
        let n_whole = lanes.len() * LANES;
        for (lane, out) in lanes.iter_mut().enumerate() {
            let mut sums = [0.0f32; LANES];
            for (k, left) in left.iter().enumerate() {
                let right = &self.right[k * self.width + lane * LANES..][..LANES];
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = left.mul_add(*right, *sum);
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out += sum * self.scale;
            }
        }
        for (column, out) in rest.iter_mut().enumerate() {
            let mut sum = 0.0f32;
            for (k, left) in left.iter().enumerate() {
                sum = left.mul_add(self.right[k * self.width + n_whole + column], sum);
            }
            *out += sum * self.scale;
        }
        debug_assert_eq!(left.len(), self.rank);
    }
}

impl Factor {
    /// Factor for a tensor that belongs to one matrix.
    pub(super) fn whole(tensor: &Tensor, rank_first: bool) -> Factor {
        Factor {
            tensor: tensor.clone(),
            rank_first,
            first: 0,
            step: 1,
            matrix_step: 0,
            offset: 0,
            core: None,
        }
    }

    /// Part `range` of a matrix along the dimension that is not the rank: (rank, range) if `rank_first`, else
    /// (range, rank).
    fn read(
        &self,
        parts: &[Part],
        matrix: u64,
        range: Range<u64>,
        rank: usize,
        rank_first: bool,
    ) -> Result<Vec<f32>, ReadError> {
        if let Some(core) = &self.core {
            return tucker(core, &self.tensor, parts, range, rank);
        }
        let n = (range.end - range.start) as usize;
        let range = self.offset + range.start..self.offset + range.end;
        let first = self.first + matrix * self.matrix_step;
        let mut values = vec![0.0; n * rank];
        let mut is_rank_first = self.rank_first;
        if self.step != 1 {
            // Ranks of other matrices lie in between.
            for (k, values) in (0..).zip(values.chunks_exact_mut(n.max(1))) {
                let at = first + k * self.step;
                let (rows, columns) =
                    if self.rank_first { (at..at + 1, range.clone()) } else { (range.clone(), at..at + 1) };
                read_columns(parts, &self.tensor, rows, columns, values)?;
            }
            is_rank_first = true;
        } else if self.rank_first {
            read_columns(parts, &self.tensor, first..first + rank as u64, range, &mut values)?;
        } else {
            read_columns(parts, &self.tensor, range, first..first + rank as u64, &mut values)?;
        }
        if is_rank_first == rank_first {
            return Ok(values);
        }
        Ok(transposed(&values, if rank_first { rank } else { n }))
    }
}

/// Columns `columns` of the factor R (rank, inputs * kernel) that `down` (rank, inputs) and `core` (rank, rank * kernel) are
/// the parts of.
fn tucker(
    core: &Tensor,
    down: &Tensor,
    parts: &[Part],
    columns: Range<u64>,
    rank: usize,
) -> Result<Vec<f32>, ReadError> {
    let core_columns = core.row_elems();
    let kernel = (core_columns / rank as u64).max(1);
    let inputs = columns.start / kernel..columns.end.div_ceil(kernel);
    let n_inputs = (inputs.end - inputs.start) as usize;
    let mut values = vec![0.0; rank * n_inputs];
    read_columns(parts, down, 0..rank as u64, inputs.clone(), &mut values)?;
    let mut cores = vec![0.0; rank * core_columns as usize];
    read_columns(parts, core, 0..rank as u64, 0..core_columns, &mut cores)?;
    let mut factor = Vec::with_capacity(rank * (columns.end - columns.start) as usize);
    for core in cores.chunks_exact(core_columns.max(1) as usize) {
        factor.extend(columns.clone().map(|column| {
            let (input, place) = ((column / kernel - inputs.start) as usize, (column % kernel) as usize);
            let (core, values) = (&core[place..], &values[input..]);
            let terms = core.iter().step_by(kernel as usize).zip(values.iter().step_by(n_inputs));
            terms.fold(0.0f32, |sum, (core, value)| core.mul_add(*value, sum))
        }));
    }
    Ok(factor)
}

/// Transposes rows of `width` values.
pub(crate) fn transposed(values: &[f32], width: usize) -> Vec<f32> {
    let width = width.max(1);
    let n_rows = values.len() / width;
    // turned[j][i] = values[i][j]
    let mut turned = vec![0.0; values.len()];
    for (i, row) in values.chunks_exact(width).enumerate() {
        for (j, value) in row.iter().enumerate() {
            turned[j * n_rows + i] = *value;
        }
    }
    turned
}
