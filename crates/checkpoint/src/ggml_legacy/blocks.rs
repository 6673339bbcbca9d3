//! Obsolete versions of blocks of 4, 5 and 8 bits.
//!
//! ```text
//!        version 0: ggml, ggmf, ggjt 1     version 1: ggjt 2               version 2: ggjt 3, today
//! q4_0   f32 d, 16 bytes, neighbours  20   f32 d, 16 bytes, halves    20   f16 d                 18
//! q4_1   f32 d, f32 m, neighbours     24   f32 d, f32 m, halves       24   f16 d, f16 m          20
//! q4_2   16 elements: f16 d, 8 bytes  10   -                               -
//! q4_3   16 elements: f16 d, f16 m    12   -                               -
//! q5_0   f16 d, qh, neighbours        22   f16 d, qh, halves          22   as before             22
//! q5_1   f16 d, f16 m, qh, neighbours 24   f16 d, f16 m, qh, halves   24   as before             24
//! q8_0   f32 d, 32 bytes              36   f32 d, 32 bytes            36   f16 d                 34
//! ```
//!
//! Neighbours: byte j contains elements 2j (low nibble) and 2j + 1. Halves: elements j and j + 16. `qh`: bit
//! i is the fifth bit of element i. Values: `(x - 8) d`, `(x - 16) d` for q5_0, `x d + m` with a minimum m,
//! `x d` for q8_0, in f32.
//!
//! Source: `dequantize_row_*` of `ggml.c` in llama.cpp of March to May 2023.

use gguf_types::DType;

/// Layout of a tensor's elements in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// A current type.
    Today(DType),
    /// Blocks in an obsolete format.
    Old(&'static LegacyBlock),
}

/// An obsolete block format.
#[derive(Debug, PartialEq, Eq)]
pub struct LegacyBlock {
    name: &'static str,
    n_elems: usize,
    /// Bytes of a scale: 4 for f32, 2 for f16.
    scale_bytes: usize,
    /// True if a minimum follows the scale.
    has_min: bool,
    bits: u32,
    /// True if a byte contains neighbors rather than elements of both halves.
    neighbours: bool,
    /// Current type with the same values if scales and minima fit f16.
    current_dtype: Option<DType>,
}

const fn old(
    name: &'static str,
    n_elems: usize,
    scale_bytes: usize,
    has_min: bool,
    bits: u32,
    neighbours: bool,
    current_dtype: Option<DType>,
) -> LegacyBlock {
    LegacyBlock { name, n_elems, scale_bytes, has_min, bits, neighbours, current_dtype }
}

static Q4_0_A: LegacyBlock = old("q4_0", 32, 4, false, 4, true, Some(DType::Q4_0));
static Q4_1_A: LegacyBlock = old("q4_1", 32, 4, true, 4, true, Some(DType::Q4_1));
static Q4_2_A: LegacyBlock = old("q4_2", 16, 2, false, 4, true, None);
static Q4_3_A: LegacyBlock = old("q4_3", 16, 2, true, 4, true, None);
static Q5_0_A: LegacyBlock = old("q5_0", 32, 2, false, 5, true, Some(DType::Q5_0));
static Q5_1_A: LegacyBlock = old("q5_1", 32, 2, true, 5, true, Some(DType::Q5_1));
static Q4_0_B: LegacyBlock = old("q4_0", 32, 4, false, 4, false, Some(DType::Q4_0));
static Q4_1_B: LegacyBlock = old("q4_1", 32, 4, true, 4, false, Some(DType::Q4_1));
static Q8_0_AB: LegacyBlock = old("q8_0", 32, 4, false, 8, false, Some(DType::Q8_0));

impl Blocks {
    /// Type with this `id` in a version of the blocks (0, 1 or 2, see the table above); `None` if the id is
    /// undefined, and for q8_1, which no file contains.
    pub(super) fn of(id: u32, version: u32) -> Option<Blocks> {
        use Blocks::{Old, Today};
        Some(match (id, version) {
            (0, _) => Today(DType::F32),
            (1, _) => Today(DType::F16),
            (2, 0) => Old(&Q4_0_A),
            (2, 1) => Old(&Q4_0_B),
            (2, _) => Today(DType::Q4_0),
            (3, 0) => Old(&Q4_1_A),
            (3, 1) => Old(&Q4_1_B),
            (3, _) => Today(DType::Q4_1),
            (4, 0) => Old(&Q4_2_A),
            (5, 0) => Old(&Q4_3_A),
            (6, 0) => Old(&Q5_0_A),
            (6, _) => Today(DType::Q5_0),
            (7, 0) => Old(&Q5_1_A),
            (7, _) => Today(DType::Q5_1),
            (8, 0 | 1) => Old(&Q8_0_AB),
            (8, _) => Today(DType::Q8_0),
            // The k-quants were introduced during ggjt 3 and have not changed since.
            (10..=14, 2) => Today(DType::from_id(id).ok()?),
            _ => return None,
        })
    }

    /// Name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Blocks::Today(dtype) => dtype.name(),
            Blocks::Old(block) => block.name,
        }
    }

    /// Elements of a block.
    pub fn n_elems(self) -> u64 {
        match self {
            Blocks::Today(dtype) => dtype.block_elems(),
            Blocks::Old(block) => block.n_elems as u64,
        }
    }

    /// Bytes of a block.
    pub fn n_bytes(self) -> u64 {
        match self {
            Blocks::Today(dtype) => dtype.block_bytes(),
            Blocks::Old(block) => block.n_bytes() as u64,
        }
    }
}

impl LegacyBlock {
    /// Bytes before the codes: scale and minimum.
    fn head_bytes(&self) -> usize {
        self.scale_bytes * (1 + usize::from(self.has_min))
    }

    /// Bytes of a block.
    fn n_bytes(&self) -> usize {
        self.head_bytes() + self.n_elems * self.bits as usize / 8
    }

    /// Current type with the same values if all scales fit f16.
    pub(super) fn current_dtype(&self) -> Option<DType> {
        self.current_dtype
    }

    /// Scale and minimum of a block; a missing minimum is 0.
    fn scales(&self, block: &[u8]) -> [f32; 2] {
        let number = |bytes: &[u8]| match *bytes {
            [a, b] => half_to_f32(u16::from_le_bytes([a, b])),
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
            _ => 0.0,
        };
        let (d, rest) = block.split_at(self.scale_bytes);
        [number(d), if self.has_min { number(&rest[..self.scale_bytes]) } else { 0.0 }]
    }

    /// Codes of a block, in element order, without an offset.
    fn codes(&self, block: &[u8]) -> [i32; 32] {
        let mut codes = [0; 32];
        let mut bytes = &block[self.head_bytes()..];
        if self.bits == 8 {
            codes.iter_mut().zip(bytes).for_each(|(code, byte)| *code = i32::from(byte.cast_signed()));
            return codes;
        }
        let mut high = 0;
        if let (5, Some((bits, rest))) = (self.bits, bytes.split_first_chunk::<4>()) {
            (high, bytes) = (u32::from_le_bytes(*bits), rest);
        }
        for (j, byte) in bytes.iter().enumerate() {
            let [low, upper] = if self.neighbours { [2 * j, 2 * j + 1] } else { [j, j + self.n_elems / 2] };
            codes[low] = i32::from(byte & 0x0f);
            codes[upper] = i32::from(byte >> 4);
        }
        for (i, code) in codes.iter_mut().enumerate() {
            *code |= ((high >> i & 1) << 4).cast_signed();
        }
        codes
    }

    /// Decodes complete blocks.
    pub fn decode(&self, blocks: &[u8], out: &mut [f32]) {
        // Codes with a minimum are unsigned, bytes are signed, and all others are centered.
        let offset = if self.has_min || self.bits == 8 { 0 } else { 1 << (self.bits - 1) };
        for (block, out) in blocks.chunks_exact(self.n_bytes()).zip(out.chunks_exact_mut(self.n_elems)) {
            let ([d, m], codes) = (self.scales(block), self.codes(block));
            // out[i] = (codes[i] - offset) d + m
            for (out, code) in out.iter_mut().zip(codes) {
                let product = (code - offset) as f32 * d;
                *out = if self.has_min { product + m } else { product };
            }
        }
    }

    /// True if every scale of these blocks fits f16.
    pub(super) fn fits(&self, blocks: &[u8]) -> bool {
        let fits = |block: &[u8]| self.scales(block).iter().all(|&scale| exact_half(scale).is_some());
        self.scale_bytes == 2 || blocks.chunks_exact(self.n_bytes()).all(fits)
    }

    /// Appends these blocks in their current form; they must fit.
    pub(super) fn repack(&self, blocks: &[u8], out: &mut Vec<u8>) {
        for block in blocks.chunks_exact(self.n_bytes()) {
            let (scales, codes) = (self.scales(block), self.codes(block));
            for scale in &scales[..1 + usize::from(self.has_min)] {
                out.extend_from_slice(&exact_half(*scale).unwrap_or(0).to_le_bytes());
            }
            match self.bits {
                8 => out.extend_from_slice(&block[self.head_bytes()..]),
                bits => {
                    // The fifth bits keep their positions; nibbles move from neighbors to halves.
                    if bits == 5 {
                        out.extend_from_slice(&block[self.head_bytes()..self.head_bytes() + 4]);
                    }
                    let nibble = |i: usize| (codes[i] & 0x0f) as u8;
                    out.extend((0..16).map(|j| nibble(j) | nibble(j + 16) << 4));
                }
            }
        }
    }
}

/// Converts f16 to f32. A subnormal is a multiple of 2^-24, which is a normal f32.
fn half_to_f32(half: u16) -> f32 {
    let (sign, exponent, mantissa) =
        (u32::from(half >> 15) << 31, u32::from(half >> 10 & 31), u32::from(half & 1023));
    let magnitude = match exponent {
        0 => (mantissa as f32 * 2f32.powi(-24)).to_bits(),
        31 => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The f16 with this value; `None` if there is no exact or finite one.
fn exact_half(value: f32) -> Option<u16> {
    let bits = value.to_bits();
    let (sign, exponent, mantissa) = ((bits >> 31 << 15) as u16, bits >> 23 & 255, bits & 0x007f_ffff);
    let magnitude = match exponent {
        // A power of two from -14 to 15, followed by ten bits.
        113..=142 if mantissa.trailing_zeros() >= 13 => {
            Some(((exponent - 112) << 10 | mantissa >> 13) as u16)
        }
        // Smaller: a multiple of 2^-24 below 1024.
        0..=112 => {
            let count = value.abs() * 2f32.powi(24);
            (count.fract() == 0.0).then_some(count as u16)
        }
        _ => None,
    };
    magnitude.map(|magnitude| sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_f16_values_are_found() {
        for half in 0..=u16::MAX {
            let value = half_to_f32(half);
            let expected = value.is_finite().then_some(half);
            assert_eq!(exact_half(value), expected, "{half:04x}");
            // The next f32 in either direction is not an f16.
            if value.is_finite() && value != 0.0 {
                for bits in [value.to_bits() + 1, value.to_bits() - 1] {
                    assert_eq!(exact_half(f32::from_bits(bits)), None, "{half:04x}");
                }
            }
        }
        assert_eq!(half_to_f32(0x3c00), 1.0);
        assert_eq!(half_to_f32(0x0001), 2f32.powi(-24));
        assert_eq!((exact_half(65536.0), exact_half(1e-40)), (None, None));
    }

    #[test]
    fn block_sizes_match_table() {
        let bytes = |id, version| Blocks::of(id, version).map(Blocks::n_bytes);
        let table = [
            (2, [Some(20), Some(20), Some(18)]),
            (3, [Some(24), Some(24), Some(20)]),
            (4, [Some(10), None, None]),
            (5, [Some(12), None, None]),
            (6, [Some(22); 3]),
            (7, [Some(24); 3]),
            (8, [Some(36), Some(36), Some(34)]),
            (9, [None; 3]),
            (10, [None, None, Some(84)]),
            (14, [None, None, Some(210)]),
            (15, [None; 3]),
        ];
        for (id, expected) in table {
            assert_eq!([0, 1, 2].map(|version| bytes(id, version)), expected, "type {id}");
        }
    }
}
