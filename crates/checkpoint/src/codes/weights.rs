//! The values of codes with scales and zeros.

use std::ops::Range;

use gguf_types::DType;

use super::{
    packing::{Axis, Codes, Packing, RUN},
    strided::Strided,
};
use crate::{Dtype, Part, ReadError, Region, Repacks, Span, Stored};

/// A tensor that is stored as codes, scales and zeros: (matrices, rows, columns). The rows of all matrices are the
/// rows of the tensor.
#[derive(Debug, Clone)]
pub(crate) struct CodedWeights {
    /// Number of matrices: the number of experts, otherwise 1.
    pub n_matrices: u64,
    pub n_rows: u64,
    pub n_columns: u64,
    /// Codes, (rows, columns).
    pub codes: Codes,
    pub scales: Strided,
    pub zeros: Zeros,
    /// Offsets added to the product, (rows, groups).
    pub offsets: Option<Strided>,
    pub groups: Groups,
    pub fold: Option<Fold>,
}

#[derive(Debug, Clone)]
pub(crate) enum Zeros {
    Same(f32),
    /// Codes, (rows, groups).
    Codes(Codes, ZeroRule),
    /// Numbers, (rows, groups).
    Floats(Strided),
}

/// Meaning of a stored zero point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZeroRule {
    AsStored,
    /// One more, modulo the range: the largest is followed by 0.
    PlusOne,
    /// One more, which may need an additional bit.
    PlusOneUnmasked,
    /// One more, added to all fields of a 32-bit word at once, so that an overflow carries into the next
    /// field.
    PlusOneByWord,
}

#[derive(Debug, Clone)]
pub(crate) enum Groups {
    /// This many neighboring columns are a group; the last may be shorter.
    Size(u64),
    /// Groups in any order: I32 (columns), each in 0..`n_groups`.
    Index {
        /// Tensor of the file, for messages.
        name: String,
        span: Span,
        /// Number of groups.
        n_groups: u64,
    },
}

/// A factor of each column: floats, (columns).
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    /// The factors; columns take the place of groups.
    pub factors: Strided,
    /// True if values are divided by the scales rather than multiplied.
    pub divides: bool,
}

/// Number of rows that are decoded at a time.
const BLOCK_ROWS: u64 = 64;
/// Minimum number of outputs in columns that are read together: 256 bytes of each row of 32-bit words.
const LEAST_PANEL: u64 = 64;
/// Maximum number of such outputs.
const MOST_PANEL: u64 = 1024;
/// Maximum number of values of such outputs. Larger panels were no faster, and every thread has one: 16
/// threads took 247 MB with 2 Mi values, 115 MB with 512 Ki.
const PANEL_ELEMS: u64 = 1 << 19;

#[derive(Default)]
pub(super) struct Scratch {
    /// (rows, stride) codes.
    pub codes: Vec<u8>,
    /// (rows, groups).
    pub scales: Vec<f32>,
    pub zeros: Vec<f32>,
    pub offsets: Vec<f32>,
}

/// Decoded parameters of some rows, as positions in a [`Scratch`].
pub(super) struct Block {
    /// Bytes from one row of codes to the next.
    pub stride: usize,
    /// Column of the first code.
    pub first_column: u64,
    /// Group of the first scale.
    pub first_group: u64,
    pub n_groups: usize,
}

impl CodedWeights {
    /// One matrix (rows, columns) without offsets or factors of columns.
    pub fn new(
        [n_rows, n_columns]: [u64; 2],
        codes: Codes,
        scales: Strided,
        zeros: Zeros,
        groups: Groups,
    ) -> CodedWeights {
        CodedWeights {
            n_matrices: 1,
            n_rows,
            n_columns,
            codes,
            scales,
            zeros,
            offsets: None,
            groups,
            fold: None,
        }
    }

    pub fn n_groups(&self) -> u64 {
        match &self.groups {
            Groups::Size(size) => self.n_columns.div_ceil((*size).max(1)),
            Groups::Index { n_groups, .. } => *n_groups,
        }
    }

    /// Groups of columns `columns`.
    fn groups_of(&self, columns: &Range<u64>) -> Range<u64> {
        match &self.groups {
            Groups::Size(size) => columns.start / size..columns.end.div_ceil(*size),
            Groups::Index { n_groups, .. } => 0..*n_groups,
        }
    }

    /// Rows of the tensor, cut at matrices and into blocks of at most [`BLOCK_ROWS`]: matrix and rows in it.
    pub(super) fn blocks(&self, rows: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let (n_rows, mut row) = (self.n_rows, rows.start);
        std::iter::from_fn(move || {
            (row < rows.end).then(|| {
                let (matrix, first) = (row / n_rows, row % n_rows);
                let n = (rows.end - row).min(n_rows - first).min(BLOCK_ROWS);
                row += n;
                (matrix, first..first + n)
            })
        })
    }

    /// Reads codes, scales, zeros and offsets of rows `rows` of a matrix.
    pub(super) fn load(
        &self,
        parts: &[Part],
        matrix: u64,
        rows: Range<u64>,
        columns: &Range<u64>,
        scratch: &mut Scratch,
    ) -> Result<Block, ReadError> {
        let n_rows = (rows.end - rows.start) as usize;
        // Fast loops begin at a multiple of a run.
        let first_column = columns.start / RUN * RUN;
        let end_column = columns.end.next_multiple_of(RUN).min(self.n_columns);
        // One more run between rows, so that rows of a power of two bytes do not share one cache set.
        let stride = (end_column - first_column).next_multiple_of(RUN) as usize + RUN as usize;
        scratch.codes.resize(n_rows * stride, 0);
        let (bytes, shift) = self.codes.bytes_of(parts, matrix, &rows)?;
        let places = rows.start - shift..rows.end - shift;
        self.codes.unpack(&bytes, places, first_column..end_column, stride, &mut scratch.codes);

        let groups = self.groups_of(columns);
        self.load_numbers(parts, matrix, rows, groups.clone(), scratch)?;
        let n_groups = (groups.end - groups.start) as usize;
        Ok(Block { stride, first_column, first_group: groups.start, n_groups })
    }

    /// Reads scales, zeros and offsets of groups `groups` of rows `rows` of a matrix.
    pub(super) fn load_numbers(
        &self,
        parts: &[Part],
        matrix: u64,
        rows: Range<u64>,
        groups: Range<u64>,
        scratch: &mut Scratch,
    ) -> Result<(), ReadError> {
        let n_numbers = ((rows.end - rows.start) * (groups.end - groups.start)) as usize;
        scratch.scales.resize(n_numbers, 0.0);
        self.scales.read(parts, matrix, rows.clone(), groups.clone(), &mut scratch.scales)?;
        scratch.zeros.resize(n_numbers, 0.0);
        self.zeros.read(parts, matrix, rows.clone(), groups.clone(), &mut scratch.zeros)?;
        if let Some(offsets) = &self.offsets {
            scratch.offsets.resize(n_numbers, 0.0);
            offsets.read(parts, matrix, rows, groups, &mut scratch.offsets)?;
        }
        Ok(())
    }

    /// Group of each column in `columns`, for groups in any order; otherwise `None`.
    fn index(&self, parts: &[Part], columns: &Range<u64>) -> Result<Option<Vec<u32>>, ReadError> {
        let Groups::Index { name, span, n_groups } = &self.groups else { return Ok(None) };
        let bytes = span.part_of(4 * columns.start..4 * columns.end).of(parts)?;
        let (index, _) = bytes.as_chunks::<4>();
        let index: Vec<u32> = index.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        // Checked when the checkpoint was opened, but the file may have changed.
        if let Some(place) = index.iter().position(|group| u64::from(*group) >= *n_groups) {
            let (row, found) = (columns.start + place as u64, index[place] as i32);
            return Err(ReadError::no_value(name, row, "a number of a group", found));
        }
        Ok(Some(index))
    }

    /// Values of a row of codes.
    fn decode_row(
        &self,
        block: &Block,
        scratch: &Scratch,
        row: usize,
        columns: &Range<u64>,
        out: &mut [f32],
    ) {
        let begin = row * block.stride + (columns.start - block.first_column) as usize;
        let mut codes = &scratch.codes[begin..begin + out.len()];
        let row_range = |values: &[f32]| row * block.n_groups..((row + 1) * block.n_groups).min(values.len());
        let scales = &scratch.scales[row_range(&scratch.scales)];
        let zeros = &scratch.zeros[row_range(&scratch.zeros)];
        let Groups::Size(size) = self.groups else { return };
        let mut left = &mut *out;
        let mut column = columns.start;
        // Group by group: w = (q - z) * s over its requested columns.
        for group in 0..block.n_groups {
            let end = ((block.first_group + group as u64 + 1) * size).min(columns.end);
            let n = (end - column) as usize;
            let (now, later) = left.split_at_mut(n);
            let (scale, zero) = (scales[group], zeros[group]);
            for (out, code) in now.iter_mut().zip(&codes[..n]) {
                *out = (f32::from(*code) - zero) * scale;
            }
            if self.offsets.is_some() {
                let offset = scratch.offsets[row * block.n_groups + group];
                now.iter_mut().for_each(|out| *out += offset);
            }
            (codes, left, column) = (&codes[n..], later, end);
        }
    }

    /// Values of a row of codes with groups in any order.
    fn decode_indexed(
        &self,
        block: &Block,
        scratch: &Scratch,
        row: usize,
        columns: &Range<u64>,
        index: &[u32],
        out: &mut [f32],
    ) {
        let begin = row * block.stride + (columns.start - block.first_column) as usize;
        let codes = &scratch.codes[begin..begin + out.len()];
        let groups = row * block.n_groups..(row + 1) * block.n_groups;
        let (scales, zeros) = (&scratch.scales[groups.clone()], &scratch.zeros[groups.clone()]);
        for ((out, code), group) in out.iter_mut().zip(codes).zip(index) {
            let group = *group as usize;
            *out = (f32::from(*code) - zeros[group]) * scales[group];
        }
        if self.offsets.is_some() {
            let offsets = &scratch.offsets[groups];
            for (out, group) in out.iter_mut().zip(index) {
                *out += offsets[*group as usize];
            }
        }
    }

    /// True if each row is a separate range of bytes.
    fn is_by_rows(&self) -> bool {
        self.codes.row_bytes().is_some()
    }
}

impl Stored for CodedWeights {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let width = (columns.end - columns.start) as usize;
        if width == 0 {
            return Ok(());
        }
        let index = self.index(parts, &columns)?;
        let fold = match &self.fold {
            Some(fold) => {
                let mut factors = vec![0.0; width];
                fold.factors.read(parts, 0, 0..1, columns.clone(), &mut factors)?;
                Some((factors, fold.divides))
            }
            None => None,
        };
        let mut scratch = Scratch::default();
        let mut left = out;
        for (matrix, rows) in self.blocks(rows) {
            let n_rows = (rows.end - rows.start) as usize;
            let block = self.load(parts, matrix, rows, &columns, &mut scratch)?;
            let (now, later) = left.split_at_mut(n_rows * width);
            for (row, out) in now.chunks_exact_mut(width).enumerate() {
                match &index {
                    None => self.decode_row(&block, &scratch, row, &columns, out),
                    Some(index) => self.decode_indexed(&block, &scratch, row, &columns, index, out),
                }
                match &fold {
                    None => {}
                    Some((factors, true)) => out.iter_mut().zip(factors).for_each(|(out, by)| *out /= by),
                    Some((factors, false)) => out.iter_mut().zip(factors).for_each(|(out, by)| *out *= by),
                }
            }
            left = later;
        }
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        let mut spans = Vec::new();
        let n_groups = self.n_groups();
        let mut row = rows.start;
        // One range per matrix: consecutive rows, or the entire matrix.
        while row < rows.end {
            let (matrix, first) = (row / self.n_rows, row % self.n_rows);
            let n = (rows.end - row).min(self.n_rows - first);
            spans.push(self.codes.place(matrix, first..first + n));
            let mut grids = vec![&self.scales];
            grids.extend(&self.offsets);
            match &self.zeros {
                Zeros::Same(_) => {}
                Zeros::Floats(grid) => grids.push(grid),
                Zeros::Codes(codes, _) => spans.push(codes.place(matrix, first..first + n)),
            }
            spans.extend(grids.into_iter().map(|grid| grid.place(matrix, first..first + n, n_groups)));
            row += n;
        }
        if let Groups::Index { span, .. } = &self.groups {
            spans.push(span.clone());
        }
        spans.extend(self.fold.as_ref().map(|fold| fold.factors.span.clone()));
        // Spans that several matrices share, and single numbers for all, are listed once.
        spans.sort_by_key(|span| (span.part, span.bytes.start, span.bytes.end));
        spans.dedup();
        spans
    }

    /// Number of rows that are read together. Rows in columns share every page, so only the buffer limits it.
    fn panel_rows(&self) -> u64 {
        if self.is_by_rows() {
            return 1;
        }
        let panel =
            (PANEL_ELEMS / self.n_columns.max(1)).clamp(LEAST_PANEL, MOST_PANEL) / BLOCK_ROWS * BLOCK_ROWS;
        panel.min(self.n_rows).max(1)
    }

    #[cfg(test)]
    fn pieces(&self, parts: &[Part], rows: Range<u64>) -> Result<[Vec<f32>; 3], ReadError> {
        let (mut pieces, mut scratch) = ([Vec::new(), Vec::new(), Vec::new()], Scratch::default());
        let Groups::Size(size) = self.groups else { return Ok(pieces) };
        for (matrix, rows) in self.blocks(rows) {
            let n_rows = (rows.end - rows.start) as usize;
            let block = self.load(parts, matrix, rows, &(0..self.n_columns), &mut scratch)?;
            for (row, column) in
                (0..n_rows).flat_map(|row| (0..self.n_columns).map(move |column| (row, column)))
            {
                let place = row * block.n_groups + (column / size) as usize;
                pieces[0].push(f32::from(scratch.codes[row * block.stride + column as usize]));
                pieces[1].push(scratch.scales[place]);
                // The offset if there is one: only forms with an offset round twice.
                pieces[2].push(scratch.offsets.get(place).copied().unwrap_or(scratch.zeros[place]));
            }
        }
        Ok(pieces)
    }

    fn repacks_to(&self, parts: &[Part]) -> Result<Repacks, ReadError> {
        self.repack_types(parts)
    }

    fn repack(
        &self,
        parts: &[Part],
        dtype: DType,
        rows: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.repack_rows(parts, dtype, rows, out)
    }
}

impl Zeros {
    /// Reads the zeros of groups `groups` of rows `rows` into `out`, which is (rows, groups).
    fn read(
        &self,
        parts: &[Part],
        matrix: u64,
        rows: Range<u64>,
        groups: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        match self {
            Zeros::Same(zero) => out.fill(*zero),
            Zeros::Floats(grid) => grid.read(parts, matrix, rows, groups, out)?,
            Zeros::Codes(codes, rule) => {
                let (bytes, shift) = codes.bytes_of(parts, matrix, &rows)?;
                let n_groups = (groups.end - groups.start) as usize;
                for (row, out) in (rows.start - shift..rows.end - shift).zip(out.chunks_exact_mut(n_groups)) {
                    for (group, out) in groups.clone().zip(out) {
                        *out = rule.zero(codes, &bytes, row, group);
                    }
                }
            }
        }
        Ok(())
    }
}

impl ZeroRule {
    /// Zero of a row and group.
    fn zero(self, codes: &Codes, bytes: &[u8], row: u64, group: u64) -> f32 {
        let bits = codes.bits;
        let mask = (1u32 << bits) - 1;
        match self {
            ZeroRule::AsStored => f32::from(codes.code_at(bytes, row, group)),
            ZeroRule::PlusOne => ((u32::from(codes.code_at(bytes, row, group)) + 1) & mask) as f32,
            ZeroRule::PlusOneUnmasked => f32::from(codes.code_at(bytes, row, group)) + 1.0,
            ZeroRule::PlusOneByWord => {
                let (stream, elem) = match codes.axis {
                    Axis::Row => (row, group),
                    Axis::Column => (group, row),
                };
                let Packing::Dense { stream_bytes } = codes.packing else {
                    return f32::from(codes.code_at(bytes, row, group));
                };
                let bit = elem * u64::from(bits);
                let at = (stream * stream_bytes + bit / 32 * 4) as usize;
                let word = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                // A one in every field: 0x11111111 of nibbles.
                let ones = u32::MAX / mask;
                ((word.wrapping_add(ones) >> (bit % 32)) & mask) as f32
            }
        }
    }
}

/// Float types of scales and offsets.
pub(crate) const FLOATS: &[Dtype] = &[Dtype::F16, Dtype::BF16, Dtype::F32];
