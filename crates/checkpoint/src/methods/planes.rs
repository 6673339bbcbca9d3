//! Codes whose words combine distant elements: the tensor is cut into equal planes, and word `j` contains
//! element `j` of each plane.
//!
//! ```text
//! G      the tensor, flattened, seen as a matrix [groups of rows, columns]; element i = row i / columns, column i % columns
//! word j  of the file contains elements j, j + plane, j + 2·plane, ... of G, in bits shift[0], shift[1], shift[2], ...
//! scale   one for each row of G or one for each column of G
//!
//! w = fl(fl(code - zero) * scale)      Offset::Zeros
//! w = fl(fl(code * scale) - shift)     Offset::Shifts
//! ```
//!
//! Users: HQQ (`BitPack` of hqq 0.2.8), quanto (`pack_weights` of optimum-quanto 0.2.7).

use std::ops::Range;

use super::number_tables::Scales;
use crate::{Part, ReadError, Region, Span, Stored, rows::read_runs};

#[derive(Debug)]
pub(super) struct Planes {
    pub codes: Span,
    /// Bytes per word: 1 or 4.
    pub word_bytes: u64,
    /// Number of words in the file, and of elements per plane.
    pub plane: u64,
    /// The lowest bit of each plane in its word.
    pub shifts: Vec<u32>,
    pub mask: u32,
    /// Elements of a row, and of the tensor, which may end inside the last plane.
    pub row_elems: u64,
    pub n_elems: u64,
    pub columns: u64,
    pub groups: Groups,
    pub scales: Scales,
    pub offset: Offset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    Rows,
    Columns,
}

/// Offset subtracted from a code or from its product.
#[derive(Debug)]
pub(super) enum Offset {
    Zeros(Scales),
    Shifts(Scales),
}

impl Planes {
    /// Codes of elements `begin..` as numbers.
    fn codes(&self, parts: &[Part], begin: u64, out: &mut [f32]) -> Result<(), ReadError> {
        let end = begin + out.len() as u64;
        let (mut at, mut left) = (begin, out);
        while at < end {
            // A run in one plane has one shift, so the loop needs no branch per element: word j = at % plane,
            // and so on.
            let (plane, word) = (at / self.plane, at % self.plane);
            let n = (self.plane - word).min(end - at);
            let bytes = self.codes.part_of(word * self.word_bytes..(word + n) * self.word_bytes).of(parts)?;
            let (now, later) = left.split_at_mut(n as usize);
            let shift = self.shifts[plane as usize];
            if self.word_bytes == 1 {
                let mask = self.mask as u8;
                for (out, byte) in now.iter_mut().zip(bytes.iter()) {
                    *out = f32::from((byte >> shift) & mask);
                }
            } else {
                let (words, _) = bytes.as_chunks();
                for (out, word) in now.iter_mut().zip(words) {
                    *out = ((u32::from_le_bytes(*word) >> shift) & self.mask) as f32;
                }
            }
            (at, left) = (at + n, later);
        }
        Ok(())
    }

    /// Scales or offsets for a run of elements from one row of G: one, or one per element.
    fn factors(
        &self,
        parts: &[Part],
        of: &Scales,
        run: &Range<u64>,
        out: &mut Vec<f32>,
    ) -> Result<(), ReadError> {
        let places = match self.groups {
            Groups::Rows => run.start / self.columns..run.start / self.columns + 1,
            Groups::Columns => run.start % self.columns..run.start % self.columns + (run.end - run.start),
        };
        of.read(parts, places, out)
    }

    /// Reads elements `begin..` of the flattened tensor into `out`.
    fn read_flat(&self, parts: &[Part], begin: u64, out: &mut [f32]) -> Result<(), ReadError> {
        self.codes(parts, begin, out)?;
        let end = begin + out.len() as u64;
        let (mut scales, mut offsets) = (Vec::new(), Vec::new());
        let (mut at, mut left) = (begin, out);
        while at < end {
            // A run within one row of G.
            let stop = end.min((at / self.columns + 1).saturating_mul(self.columns));
            let (now, later) = left.split_at_mut((stop - at) as usize);
            self.factors(parts, &self.scales, &(at..stop), &mut scales)?;
            match &self.offset {
                Offset::Zeros(zeros) => {
                    self.factors(parts, zeros, &(at..stop), &mut offsets)?;
                    each(now, &scales, &offsets, |code, scale, zero| (code - zero) * scale);
                }
                Offset::Shifts(shifts) => {
                    self.factors(parts, shifts, &(at..stop), &mut offsets)?;
                    each(now, &scales, &offsets, |code, scale, shift| code * scale - shift);
                }
            }
            (at, left) = (stop, later);
        }
        Ok(())
    }
}

/// `out = value(out, scale, offset)`; both have one element for all, or one for each.
fn each(out: &mut [f32], scales: &[f32], offsets: &[f32], value: impl Fn(f32, f32, f32) -> f32) {
    match (scales, offsets) {
        ([scale], [offset]) => out.iter_mut().for_each(|out| *out = value(*out, *scale, *offset)),
        (scales, [offset]) => {
            out.iter_mut().zip(scales).for_each(|(out, scale)| *out = value(*out, *scale, *offset));
        }
        (scales, offsets) => {
            for ((out, scale), offset) in out.iter_mut().zip(scales).zip(offsets) {
                *out = value(*out, *scale, *offset);
            }
        }
    }
}

impl Stored for Planes {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        read_runs(self.row_elems, rows, columns, out, |first, out| self.read_flat(parts, first, out))
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        let (begin, end) = (rows.start * self.row_elems, (rows.end * self.row_elems).min(self.n_elems));
        let factors: Vec<&Scales> = match &self.offset {
            Offset::Zeros(of) | Offset::Shifts(of) => vec![&self.scales, of],
        };
        let places = match self.groups {
            Groups::Rows => begin / self.columns..end.div_ceil(self.columns),
            Groups::Columns if end - begin < self.columns && begin % self.columns < end % self.columns => {
                begin % self.columns..end % self.columns
            }
            Groups::Columns => 0..self.columns,
        };
        let words = |words: Range<u64>| {
            self.codes.part_of(words.start * self.word_bytes..words.end * self.word_bytes)
        };
        let (first, last) = (begin % self.plane, end % self.plane);
        let mut spans = if end - begin >= self.plane {
            vec![words(0..self.plane)]
        } else if begin / self.plane == end / self.plane {
            vec![words(first..last)]
        } else {
            // The end of one plane and the beginning of the next.
            vec![words(first..self.plane), words(0..last)]
        };
        spans.extend(factors.into_iter().map(|of| of.span(places.clone())));
        spans
    }

    #[cfg(test)]
    fn pieces(&self, parts: &[Part], rows: Range<u64>) -> Result<[Vec<f32>; 3], ReadError> {
        let (begin, end) = (rows.start * self.row_elems, rows.end * self.row_elems);
        let mut codes = vec![0.0; (end - begin) as usize];
        self.codes(parts, begin, &mut codes)?;
        let (mut scales, mut offsets, mut one) = (Vec::new(), Vec::new(), Vec::new());
        for at in begin..end {
            self.factors(parts, &self.scales, &(at..at + 1), &mut one)?;
            scales.extend(&one);
            match &self.offset {
                Offset::Zeros(of) | Offset::Shifts(of) => self.factors(parts, of, &(at..at + 1), &mut one)?,
            }
            offsets.extend(&one);
        }
        Ok([codes, scales, offsets])
    }
}
