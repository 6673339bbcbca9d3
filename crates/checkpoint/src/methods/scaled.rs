//! Codes of 8 bits with scales: each value is `w = f32(code) * f32(scale)`, one product in f32.
//!
//! ```text
//! codes   (n, out, in)  one byte each: E4M3, E5M2 or a signed integer
//! scales  a grid whose element [m, row / block_rows, column / block_columns] belongs to code [m, row, column]
//! ```
//!
//! A scale per tensor, row (channel), column, block or group is the same grid with other steps. Source of the
//! formula: `dequant_simple` in `conversion/base.py`, llama.cpp as vendored in llama-cpp-python 0.3.36, and
//! the libraries listed in `fp8.rs`.

use std::ops::Range;

use super::{grid::Grid, number_tables::Numbers};
use crate::{Dtype, Part, ReadError, Region, Span, Stored};

#[derive(Debug)]
pub(super) struct Scaled {
    pub name: String,
    pub codes: Span,
    pub numbers: Numbers,
    pub row_elems: u64,
    pub grid: Grid,
}

impl Scaled {
    /// Bytes of columns `columns` of rows `rows`, which are complete rows or one row.
    fn bytes(&self, rows: &Range<u64>, columns: &Range<u64>) -> Span {
        let begin = rows.start * self.row_elems + columns.start;
        let end = rows.end.saturating_sub(1) * self.row_elems + columns.end;
        self.codes.part_of(begin..end.max(begin))
    }

    /// One row: `out[column] = codes[column] * scale of its block`.
    fn row(&self, codes: &[u8], scales: &[f32], first_column: u64, out: &mut [f32]) {
        let table = self.numbers.table();
        let width = self.grid.block[1];
        if scales.len() == 1 || self.grid.steps[2] == 0 {
            let scale = scales.first().copied().unwrap_or(0.0);
            return multiply(table, codes, scale, out);
        }
        if width == 1 {
            for ((out, code), scale) in out.iter_mut().zip(codes).zip(scales) {
                *out = table[usize::from(*code)] * scale;
            }
            return;
        }
        // The first and last block may be cut by the columns.
        let mut at = 0;
        let mut end = (width - first_column % width) as usize;
        for scale in scales {
            let to = end.min(codes.len());
            multiply(table, &codes[at..to], *scale, &mut out[at..to]);
            (at, end) = (to, to.saturating_add(width as usize));
        }
    }
}

/// `out = codes * scale`. A table, because subnormal codes would need a branch in arithmetic.
fn multiply(table: &[f32; 256], codes: &[u8], scale: f32, out: &mut [f32]) {
    for (out, code) in out.iter_mut().zip(codes) {
        *out = table[usize::from(*code)] * scale;
    }
}

impl Stored for Scaled {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let width = (columns.end - columns.start) as usize;
        if width == 0 || rows.is_empty() {
            return Ok(());
        }
        let is_whole = columns.end - columns.start == self.row_elems;
        let whole = if is_whole { Some(self.bytes(&rows, &columns).of(parts)?) } else { None };
        let block_columns = columns.start / self.grid.block[1]..columns.end.div_ceil(self.grid.block[1]);
        // Scales of the current row of blocks: (block columns), or one if they are equal.
        let (mut scales, mut current) = (Vec::new(), None);
        for (index, (row, out)) in rows.zip(out.chunks_exact_mut(width)).enumerate() {
            let of_row;
            let codes = match &whole {
                Some(whole) => &whole[index * width..(index + 1) * width],
                None => {
                    of_row = self.bytes(&(row..row + 1), &columns).of(parts)?;
                    &*of_row
                }
            };
            if let Some(found) = self.numbers.not_a_number(codes) {
                return Err(ReadError::no_value(&self.name, row, "finite codes", found));
            }
            let first = self.grid.place(row, block_columns.start);
            if current != Some(first) {
                let n = if self.grid.steps[2] == 0 { 1 } else { block_columns.end - block_columns.start };
                self.grid.scales.read(parts, first..first + n, &mut scales)?;
                current = Some(first);
            }
            self.row(codes, &scales, columns.start, out);
        }
        Ok(())
    }

    fn codes(&self) -> Option<Dtype> {
        Some(self.numbers.dtype())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        if rows.is_empty() || self.row_elems == 0 {
            return Vec::new();
        }
        let last_column = (self.row_elems - 1) / self.grid.block[1];
        let first = self.grid.place(rows.start, 0);
        let last = self.grid.place(rows.end - 1, last_column);
        vec![self.bytes(&rows, &(0..self.row_elems)), self.grid.scales.span(first..last + 1)]
    }
}
