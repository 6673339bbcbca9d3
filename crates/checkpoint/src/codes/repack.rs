//! Codes with scales as ggml blocks with the same values.
//!
//! ```text
//! Q4_0, Q5_0, Q8_0   d (x - 8), d (x - 16), d x            Q2_0   d (x - 1), x in 0..4
//! Q4_1, Q5_1         d x + m                               TQ1_0, TQ2_0   d (x - 1), x in 0..3
//! Q4_K               d 1 x - dmin z with d = dmin = s
//! ```
//!
//! The values in the file decide if a type fits: every scale, every zero and, if codes and zeros
//! could exceed a type, every code. A zero that is negative in one form may be positive in the other
//! (Q2_0 with the zero 2, Q4_K with negative scales): it is the same number.
//!
//! Source of the layouts: `block_q4_0` and so on in `ggml/src/ggml-common.h`, llama.cpp as vendored in
//! llama-cpp-python 0.3.36.

use std::ops::Range;

use gguf_types::{
    DType,
    half::{f16_to_f32, f32_to_f16},
};

use super::{
    packing::RUN,
    weights::{CodedWeights, Groups, Scratch},
};
use crate::{Part, ReadError, Repacks};

/// Bounds on all values of a tensor.
#[derive(Debug, Clone, Copy)]
struct Extent {
    least: f32,
    most: f32,
}

impl Extent {
    const EMPTY: Extent = Extent { least: f32::INFINITY, most: f32::NEG_INFINITY };

    fn add(&mut self, value: f32) {
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    fn is_in(&self, least: f32, most: f32) -> bool {
        self.least >= least && self.most <= most
    }
}

/// Elements of a block of each type that is written here.
fn block_elems(dtype: DType) -> usize {
    dtype.block_elems() as usize
}

impl CodedWeights {
    fn run(&self) -> Option<u64> {
        match self.groups {
            Groups::Size(size) => Some(size.min(self.n_columns)),
            Groups::Index { .. } => None,
        }
    }

    /// Types that can store all values, smallest first, or the reason that no type can.
    pub(super) fn repack_types(&self, parts: &[Part]) -> Result<Repacks, ReadError> {
        let not = |reason: &str| Ok(Repacks::Not(reason.to_owned()));
        if self.fold.is_some() {
            return not("it has per-column factors");
        }
        let Some(run) = self.run() else { return not("the columns are not in group order (act-order)") };
        if !run.is_multiple_of(RUN) || !self.n_columns.is_multiple_of(RUN) {
            return Ok(Repacks::Not(format!(
                "groups of {run} in rows of {} are not whole blocks of {RUN}",
                self.n_columns
            )));
        }
        // Scales and zeros of all rows determine which types fit.
        let n_groups = self.n_groups() as usize;
        let (mut zeros, mut scratch) = (Extent::EMPTY, Scratch::default());
        let n_rows = self.tensor_rows();
        for (matrix, rows) in self.blocks(0..n_rows) {
            self.load_numbers(parts, matrix, rows, 0..n_groups as u64, &mut scratch)?;
            for scale in scratch.scales.iter().chain(&scratch.offsets) {
                if exact_f16(*scale).is_none() {
                    return Ok(Repacks::Not(format!("scale {scale} does not fit f16")));
                }
            }
            for zero in &scratch.zeros {
                if zero.fract() != 0.0 {
                    return not("zero points are not integers");
                }
                zeros.add(*zero);
            }
        }
        let (bits, holds_runs) =
            (self.codes.bits, |elems: u64| run.is_multiple_of(elems) && self.n_columns.is_multiple_of(elems));
        if self.offsets.is_some() {
            return Ok(match bits {
                _ if !zeros.is_in(0.0, 0.0) => Repacks::Not("there are zero points and offsets".to_owned()),
                ..=4 => Repacks::To(vec![DType::Q4_1, DType::Q5_1]),
                5 => Repacks::To(vec![DType::Q5_1]),
                _ => Repacks::Not(format!("no ggml type can hold codes of {bits} bits with an offset")),
            });
        }
        let largest = ((1u32 << bits) - 1) as f32;
        let mut values = Extent { least: -zeros.most, most: largest - zeros.least };
        let is_ternary = bits <= 2 && zeros.is_in(1.0, 1.0) && holds_runs(256);
        if is_ternary || bits == 8 || !values.is_in(-128.0, 127.0) {
            // The largest codes may not occur, and bytes may contain codes of fewer bits.
            values = self.values(parts)?;
        }
        let q2 = bits <= 2 && zeros.is_in(1.0, 2.0) && holds_runs(64);
        let types = [
            (is_ternary && values.is_in(-1.0, 1.0), DType::TQ1_0),
            (is_ternary && values.is_in(-1.0, 1.0), DType::TQ2_0),
            (q2, DType::Q2_0),
            (values.is_in(-8.0, 7.0), DType::Q4_0),
            (bits <= 4 && zeros.is_in(0.0, 63.0) && holds_runs(256), DType::Q4_K),
            (values.is_in(-16.0, 15.0), DType::Q5_0),
            (values.is_in(-128.0, 127.0), DType::Q8_0),
        ];
        let types: Vec<DType> = types.into_iter().filter(|(fits, _)| *fits).map(|(_, dtype)| dtype).collect();
        Ok(if types.is_empty() {
            Repacks::Not(format!(
                "codes minus zero points range from {} to {}, which no ggml type can hold",
                values.least, values.most
            ))
        } else {
            Repacks::To(types)
        })
    }

    /// The least and the largest code minus its zero.
    fn values(&self, parts: &[Part]) -> Result<Extent, ReadError> {
        let (mut values, mut scratch) = (Extent::EMPTY, Scratch::default());
        let run = self.run().unwrap_or(self.n_columns) as usize;
        for (matrix, rows) in self.blocks(0..self.tensor_rows()) {
            let n_rows = (rows.end - rows.start) as usize;
            let block = self.load(parts, matrix, rows, &(0..self.n_columns), &mut scratch)?;
            for row in 0..n_rows {
                let codes = &scratch.codes[row * block.stride..][..self.n_columns as usize];
                for (group, codes) in codes.chunks(run).enumerate() {
                    let zero = scratch.zeros[row * block.n_groups + group];
                    let (least, most) = codes.iter().fold((u8::MAX, 0), |(a, b), q| (a.min(*q), b.max(*q)));
                    values.add(f32::from(least) - zero);
                    values.add(f32::from(most) - zero);
                }
            }
        }
        Ok(values)
    }

    /// Rows as blocks of `dtype`, one of [`CodedWeights::repack_types`].
    pub(super) fn repack_rows(
        &self,
        parts: &[Part],
        dtype: DType,
        rows: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let run = self.run().unwrap_or(self.n_columns) as usize;
        let mut scratch = Scratch::default();
        for (matrix, rows) in self.blocks(rows) {
            let n_rows = (rows.end - rows.start) as usize;
            let block = self.load(parts, matrix, rows, &(0..self.n_columns), &mut scratch)?;
            for row in 0..n_rows {
                let codes = &scratch.codes[row * block.stride..][..self.n_columns as usize];
                for (begin, codes) in
                    (0..).step_by(block_elems(dtype)).zip(codes.chunks_exact(block_elems(dtype)))
                {
                    let place = row * block.n_groups + begin / run;
                    let offset = scratch.offsets.get(place).copied();
                    put_block(dtype, codes, [scratch.scales[place], scratch.zeros[place]], offset, out);
                }
            }
        }
        Ok(())
    }

    pub(super) fn tensor_rows(&self) -> u64 {
        self.n_rows * self.n_matrices
    }
}

/// Appends one block. The caller has checked that scales and values fit.
fn put_block(dtype: DType, codes: &[u8], [scale, zero]: [f32; 2], offset: Option<f32>, out: &mut Vec<u8>) {
    let half = |value: f32| exact_f16(value).unwrap_or_default().to_le_bytes();
    // q - z + middle, which is not negative if the type fits.
    let levels = |middle: i16| {
        let move_by = middle - zero as i16;
        codes.iter().map(move |code| (i16::from(*code) + move_by) as u8)
    };
    match dtype {
        DType::Q4_0 => {
            out.extend(half(scale));
            put_nibbles(levels(8), out);
        }
        DType::Q4_1 => {
            out.extend(half(scale));
            out.extend(half(offset.unwrap_or_default()));
            put_nibbles(levels(0), out);
        }
        DType::Q5_0 => {
            out.extend(half(scale));
            put_fifth_bits(levels(16), out);
            put_nibbles(levels(16), out);
        }
        DType::Q5_1 => {
            out.extend(half(scale));
            out.extend(half(offset.unwrap_or_default()));
            put_fifth_bits(levels(0), out);
            put_nibbles(levels(0), out);
        }
        DType::Q8_0 => {
            out.extend(half(scale));
            out.extend(levels(0));
        }
        DType::Q2_0 => {
            // d (x - 1) with x = q for the zero 1; for the zero 2, d = -s and x = 3 - q.
            let turned = zero == 2.0;
            out.extend(half(if turned { -scale } else { scale }));
            let level = |code: u8| if turned { 3 - code } else { code };
            // Four neighbors per byte.
            out.extend(codes.as_chunks::<4>().0.iter().map(|four| {
                let [a, b, c, d] = four.map(level);
                a | b << 2 | c << 4 | d << 6
            }));
        }
        DType::TQ2_0 => {
            // Halves of 128: byte l contains elements l, l + 32, l + 64, l + 96 of its half.
            for half in codes.chunks_exact(128) {
                out.extend(
                    (0..32).map(|l| half[l] | half[l + 32] << 2 | half[l + 64] << 4 | half[l + 96] << 6),
                );
            }
            out.extend(half(scale));
        }
        DType::TQ1_0 => put_ternary(codes, half(scale), out),
        DType::Q4_K => {
            out.extend(half(scale));
            out.extend(half(scale));
            // All eight sub-blocks have the scale 1 and the minimum z. The last four 6-bit fields have
            // their lower four bits in bytes 8 to 12, their upper two in the top of the others.
            let zero = zero as u8;
            out.extend([1; 4]);
            out.extend([zero | (zero >> 4) << 6; 4]);
            out.extend([1 | (zero & 0x0f) << 4; 4]);
            for pair in codes.chunks_exact(64) {
                out.extend((0..32).map(|i| pair[i] | pair[i + 32] << 4));
            }
        }
        _ => {}
    }
}

/// Appends levels 0 to 31 of a block: element i in the low, i + 16 in the high nibble; only the low four bits
/// of each.
fn put_nibbles(levels: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    let mut block = [0; 32];
    block.iter_mut().zip(levels).for_each(|(place, level)| *place = level & 0x0f);
    out.extend((0..16).map(|i| block[i] | block[i + 16] << 4));
}

/// Appends bit 4 of each level, as a word.
fn put_fifth_bits(levels: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    let word =
        levels.take(32).enumerate().fold(0u32, |word, (i, level)| word | u32::from(level >> 4 & 1) << i);
    out.extend(word.to_le_bytes());
}

/// Five base-3 digits per byte, stored as `ceil(number * 256 / 243)`: element `i` of 32 and those 32, 64, 96,
/// 128 after it, then likewise for 16, then four bytes of four digits.
fn put_ternary(codes: &[u8], scale: [u8; 2], out: &mut Vec<u8>) {
    for (first, n_bytes, n_digits) in [(0, 32, 5), (160, 16, 5), (240, 4, 4)] {
        for i in 0..n_bytes {
            let digit = |d: usize| if d < n_digits { u16::from(codes[first + d * n_bytes + i]) } else { 0 };
            let number = (0..5).fold(0, |number, d| 3 * number + digit(d));
            out.push((number * 256).div_ceil(243) as u8);
        }
    }
    out.extend(scale);
}

/// The f16 with this value, if there is one.
pub(super) fn exact_f16(value: f32) -> Option<u16> {
    let half = f32_to_f16(value);
    (value.is_finite() && f16_to_f32(half).to_bits() == value.to_bits()).then_some(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_values_are_exact_or_none() {
        // Every half is a float and converts back; neighboring floats are not halves.
        for half in 0..=u16::MAX {
            let mut value = [0.0];
            crate::rows::to_f32(crate::Dtype::F16, &half.to_le_bytes(), &mut value);
            let [value] = value;
            if value.is_finite() {
                assert_eq!(exact_f16(value), Some(half));
                if value != 0.0 {
                    assert_eq!(exact_f16(f32::from_bits(value.to_bits() + 1)), None, "{value}");
                    assert_eq!(exact_f16(f32::from_bits(value.to_bits() - 1)), None, "{value}");
                }
            } else {
                assert_eq!(exact_f16(value), None);
            }
        }
        for value in [65520.0, 65536.0, 1e-30, f32::MIN_POSITIVE, f32::from_bits(1)] {
            assert_eq!(exact_f16(value), None);
        }
    }
}
