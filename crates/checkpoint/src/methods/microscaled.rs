//! Floats of 4, 6 and 8 bits with group scales: MXFP4, NVFP4, MXFP6, MXFP8.
//!
//! ```text
//! format  codes             group  scale of a group       scale of a tensor  value
//! MXFP4   e2m1, two a byte  32     e8m0: 2^(b - 127)      -                  e2m1 * scale
//! NVFP4   e2m1, two a byte  16     e4m3                   f32                e2m1 * fl(e4m3 * tensor)
//! MXFP6   e2m3, 4 in 3      32     e8m0                   -                  e2m3 * scale
//! MXFP8   e4m3 or e5m2      32     e8m0                   -                  code * scale
//!
//! codes   (rows, row_elems / 2) bytes, the even element in the low half; e2m3 as a little-endian stream of 6 bits
//! scales  (rows, row_elems / group) bytes, or in the tiles of `scale_order.rs`
//! ```
//!
//! Source: OCP microscaling formats 1.0; compressed-tensors 0.20 `compressors/nvfp4`, `mxfp4`, `mxfp6`; for the blocks of
//! ggml `ModelBase.repack_mxfp4_blocks` and `_nvfp4_pack` in `conversion/base.py`, llama.cpp as vendored in
//! llama-cpp-python 0.3.36.

use std::{borrow::Cow, ops::Range};

use gguf_types::{DType, StoredBlocks};

use super::{number_tables::Numbers, scale_order::ScaleOrder};
use crate::{Dtype, Part, ReadError, Region, Repacks, Span, Stored, Tensor, rows::read_elems};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// 4 bits, groups of 32.
    Mxfp4,
    /// 4 bits, groups of 16.
    Nvfp4,
    /// 6 bits, groups of 32.
    Mxfp6,
    /// 8 bits, groups of 32.
    Mxfp8(Numbers),
}

/// Values of e2m1.
const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];
/// Both elements of a byte of e2m1.
static PAIRS: [[f32; 2]; 256] = {
    let mut pairs = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [E2M1[byte & 15], E2M1[byte >> 4]];
        byte += 1;
    }
    pairs
};
/// Values of e2m3: a sign, 2 bits of exponent with bias 1, 3 bits of mantissa.
static E2M3: [f32; 64] = {
    let mut table = [0.0; 64];
    let mut code = 0u32;
    while code < 64 {
        let (exponent, mantissa) = (code >> 3 & 3, code & 7);
        // Without an exponent there is no leading one: m / 8, else (1 + m / 8) * 2^(e - 1).
        let eighths = if exponent == 0 { mantissa } else { (8 + mantissa) << (exponent - 1) };
        let magnitude = eighths as f32 / 8.0;
        table[code as usize] = if code >= 32 { -magnitude } else { magnitude };
        code += 1;
    }
    table
};

const GROUP: usize = 32;
/// Groups of NVFP4 in a block of ggml.
const NVFP4_GROUPS: usize = 4;

impl Format {
    pub fn group(self) -> u64 {
        match self {
            Format::Mxfp4 | Format::Mxfp6 | Format::Mxfp8(_) => 32,
            Format::Nvfp4 => 16,
        }
    }

    /// Bytes of the codes of a group.
    pub fn group_bytes(self) -> u64 {
        match self {
            Format::Mxfp4 => 16,
            Format::Nvfp4 => 8,
            Format::Mxfp6 => 24,
            Format::Mxfp8(_) => 32,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::Mxfp4 => "mxfp4",
            Format::Nvfp4 => "nvfp4",
            Format::Mxfp6 => "mxfp6",
            Format::Mxfp8(_) => "mxfp8",
        }
    }

    /// ggml type with the same values, if rows of this length fit it.
    pub fn block(self, row_elems: u64) -> Option<DType> {
        let (dtype, elems) = match self {
            Format::Mxfp4 => (DType::MXFP4, 32),
            Format::Nvfp4 => (DType::NVFP4, 64),
            Format::Mxfp6 | Format::Mxfp8(_) => return None,
        };
        row_elems.is_multiple_of(elems).then_some(dtype)
    }

    /// Scale encoded by a byte; `None` for NaN.
    fn scale(self, byte: u8) -> Option<f32> {
        match self {
            Format::Nvfp4 => Some(Numbers::E4M3.table()[usize::from(byte)]).filter(|_| byte & 0x7f != 0x7f),
            _ => (byte != 0xff).then(|| match byte {
                // 2^-127 is subnormal in f32.
                0 => f32::from_bits(1 << 22),
                _ => f32::from_bits(u32::from(byte) << 23),
            }),
        }
    }

    /// Decodes a group: `out = codes * scale`.
    fn decode(self, codes: &[u8], scale: f32, out: &mut [f32]) {
        match self {
            Format::Mxfp4 | Format::Nvfp4 => {
                for (out, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
                    let pair = PAIRS[usize::from(*byte)];
                    *out = [pair[0] * scale, pair[1] * scale];
                }
            }
            Format::Mxfp6 => {
                for (out, bytes) in out.as_chunks_mut::<4>().0.iter_mut().zip(codes.as_chunks::<3>().0) {
                    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
                    *out = std::array::from_fn(|i| E2M3[(word >> (6 * i) & 63) as usize] * scale);
                }
            }
            Format::Mxfp8(numbers) => {
                let table = numbers.table();
                for (out, code) in out.iter_mut().zip(codes) {
                    *out = table[usize::from(*code)] * scale;
                }
            }
        }
    }
}

/// Codes and scales of one tensor, viewed as rows over all its outer dimensions.
#[derive(Debug)]
pub(super) struct Microscaled {
    pub format: Format,
    /// Elements of a row, a multiple of the group.
    pub row_elems: u64,
    /// Rows that share a tensor-wide scale.
    pub matrix_rows: u64,
    pub codes: Span,
    pub codes_name: String,
    pub scales: Span,
    pub scales_name: String,
    /// Order of the group scales in it.
    pub order: ScaleOrder,
    /// Tensor-wide scales: one, or one for each matrix.
    pub tensor_scales: Vec<f32>,
    /// Factors applied to each column afterwards: row_elems numbers.
    pub columns: Option<Tensor>,
    /// Blocks of the output, if it stores them unchanged.
    pub stored_blocks: Option<StoredBlocks>,
}

impl Microscaled {
    fn n_groups(&self) -> u64 {
        self.row_elems / self.format.group()
    }

    /// The codes of groups `groups` of a row.
    fn codes_of<'a>(
        &self,
        parts: &'a [Part],
        row: u64,
        groups: &Range<u64>,
    ) -> Result<Cow<'a, [u8]>, ReadError> {
        let (first, group_bytes) = (row * self.n_groups(), self.format.group_bytes());
        self.codes.part_of((first + groups.start) * group_bytes..(first + groups.end) * group_bytes).of(parts)
    }

    fn tensor_scale(&self, row: u64) -> f32 {
        let matrix = (row / self.matrix_rows.max(1)) as usize;
        self.tensor_scales.get(matrix).or(self.tensor_scales.first()).copied().unwrap_or(1.0)
    }

    fn no_scale(&self, row: u64, byte: u8, expected: &'static str) -> ReadError {
        ReadError::no_value(&self.scales_name, row, expected, format!("byte {byte:#04x}"))
    }

    /// Columns `columns` of one row.
    fn read_row(
        &self,
        parts: &[Part],
        row: u64,
        columns: &Range<u64>,
        out: &mut [f32],
    ) -> Result<(), ReadError> {
        let (group, group_bytes) = (self.format.group(), self.format.group_bytes());
        let groups = columns.start / group..columns.end.div_ceil(group);
        let codes = self.codes_of(parts, row, &groups)?;
        let scales = self.order.read(parts, &self.scales, row, &groups, self.n_groups())?;
        self.check_codes(row, columns, &groups, &codes)?;
        let factor = self.tensor_scale(row);
        // The columns may begin or end inside a group.
        let mut skip = (columns.start % group) as usize;
        let mut left = out;
        for (codes, &byte) in codes.chunks_exact(group_bytes as usize).zip(&*scales) {
            let scale = self.format.scale(byte).ok_or_else(|| self.no_scale(row, byte, "a finite scale"))?;
            let scale = if self.format == Format::Nvfp4 { scale * factor } else { scale };
            let n = left.len().min(group as usize - skip);
            let (now, later) = left.split_at_mut(n);
            if n as u64 == group {
                self.format.decode(codes, scale, now);
            } else {
                let mut whole = [0.0; GROUP];
                self.format.decode(codes, scale, &mut whole[..group as usize]);
                now.copy_from_slice(&whole[skip..skip + n]);
            }
            (left, skip) = (later, 0);
        }
        Ok(())
    }

    /// Checks that codes of 8 bits are numbers; shorter ones always are. `codes` are those of `groups`, of
    /// which only `columns` are requested.
    fn check_codes(
        &self,
        row: u64,
        columns: &Range<u64>,
        groups: &Range<u64>,
        codes: &[u8],
    ) -> Result<(), ReadError> {
        let Format::Mxfp8(numbers) = self.format else { return Ok(()) };
        let before = groups.start * self.format.group();
        let within = (columns.start - before) as usize..(columns.end - before) as usize;
        match numbers.not_a_number(&codes[within]) {
            None => Ok(()),
            Some(found) => Err(ReadError::no_value(&self.codes_name, row, "finite codes", found)),
        }
    }

    /// Scale bytes of a row, if a block can store each of them.
    fn block_scales<'a>(&self, parts: &'a [Part], row: u64) -> Result<Cow<'a, [u8]>, ReadError> {
        let n_groups = self.n_groups();
        let scales = self.order.read(parts, &self.scales, row, &(0..n_groups), n_groups)?;
        // ggml's e4m3 has no sign and reads 0x7f as 0; a NaN of e8m0 would become a large number.
        let largest = if self.format == Format::Nvfp4 { 0x7e } else { 0xfe };
        match scales.iter().find(|byte| **byte > largest) {
            Some(byte) => Err(self.no_scale(row, *byte, "a finite scale without sign")),
            None => Ok(scales),
        }
    }
}

/// The element `i` of e2m1 codes, two a byte.
fn code(codes: &[u8], i: usize) -> u8 {
    codes[i / 2] >> (4 * (i % 2)) & 0x0f
}

/// Converts from two neighbors per byte, the first in the low half, to elements `i` and `i + HALF` in byte
/// `i`.
fn halves<const HALF: usize>(codes: &[u8]) -> [u8; HALF] {
    std::array::from_fn(|i| code(codes, i) | code(codes, i + HALF) << 4)
}

impl Stored for Microscaled {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let width = (columns.end - columns.start) as usize;
        if width == 0 {
            return Ok(());
        }
        let mut factors = Vec::new();
        if let Some(tensor) = &self.columns {
            factors.resize(width, 0.0);
            read_elems(parts, tensor, columns.start, &mut factors)?;
        }
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            self.read_row(parts, row, &columns, out)?;
            for (out, factor) in out.iter_mut().zip(&factors) {
                *out *= factor;
            }
        }
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        let (n_groups, group_bytes) = (self.n_groups(), self.format.group_bytes());
        let (begin, end) = (rows.start * n_groups, rows.end * n_groups);
        let codes = self.codes.part_of(begin * group_bytes..end * group_bytes);
        vec![codes, self.scales.part_of(self.order.place(rows, n_groups))]
    }

    fn codes(&self) -> Option<Dtype> {
        match self.format {
            Format::Mxfp8(numbers) => Some(numbers.dtype()),
            _ => None,
        }
    }

    fn description(&self) -> Option<String> {
        Some(self.format.name().to_owned())
    }

    fn stored_blocks(&self) -> Option<&StoredBlocks> {
        self.stored_blocks.as_ref()
    }

    fn repacks_to(&self, _: &[Part]) -> Result<Repacks, ReadError> {
        let not = |reason: &str| Ok(Repacks::Not(reason.to_owned()));
        match self.format.block(self.row_elems) {
            _ if self.columns.is_some() => not("it has per-column factors"),
            None if self.format == Format::Nvfp4 => not("rows are not a multiple of 64"),
            None => not("no ggml type has such codes"),
            Some(_) if self.tensor_scales.iter().any(|scale| *scale != 1.0) => {
                not("the tensor has a scale in addition to its block scales")
            }
            Some(dtype) => Ok(Repacks::To(vec![dtype])),
        }
    }

    fn repack(&self, parts: &[Part], _: DType, rows: Range<u64>, out: &mut Vec<u8>) -> Result<(), ReadError> {
        for row in rows {
            let scales = self.block_scales(parts, row)?;
            let codes = self.codes_of(parts, row, &(0..self.n_groups()))?;
            match self.format {
                Format::Mxfp4 => {
                    for (scale, codes) in scales.iter().zip(codes.as_chunks::<16>().0) {
                        out.push(*scale);
                        out.extend_from_slice(&halves::<16>(codes));
                    }
                }
                Format::Nvfp4 => {
                    let scales = scales.as_chunks::<NVFP4_GROUPS>().0;
                    for (scales, codes) in scales.iter().zip(codes.as_chunks::<{ 8 * NVFP4_GROUPS }>().0) {
                        out.extend_from_slice(scales);
                        for codes in codes.as_chunks::<8>().0 {
                            out.extend_from_slice(&halves::<8>(codes));
                        }
                    }
                }
                Format::Mxfp6 | Format::Mxfp8(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_block_share_bytes() {
        // Element i has the code i % 16.
        let neighbours: [u8; 16] = std::array::from_fn(|i| {
            let first = (2 * i % 16) as u8;
            first | (first + 1) << 4
        });
        let expected: [u8; 16] = std::array::from_fn(|i| i as u8 | (i as u8) << 4);
        assert_eq!(halves::<16>(&neighbours), expected);
        let nvfp4: [u8; 8] = std::array::from_fn(|i| i as u8 | (i as u8 + 8) << 4);
        assert_eq!(halves::<8>(&neighbours), nvfp4);
    }
}
