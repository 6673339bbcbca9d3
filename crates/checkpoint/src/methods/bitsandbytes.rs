//! bitsandbytes: 4-bit codes in blocks over the flattened tensor, and 8-bit integers with a scale per row.
//!
//! ```text
//! X                    U8 [ceil(n/2), 1]   n = out·in; element 2i = byte >> 4, element 2i+1 = byte & 15. Any other type
//!                                          is a disguise of the same bytes (`bnb_4bit_quant_storage`)
//! X.absmax             F32 [blocks]        one for each block of `blocksize` elements, the last of which may be short;
//!                      U8 [blocks]         nested: codes of `nested_quant_map`
//! X.quant_map          F32 [16]            values of the codes
//! X.nested_absmax      F32 [ceil(blocks/nested_blocksize)]
//! X.nested_quant_map   F32 [256]
//! X.quant_state.bitsandbytes__nf4 | __fp4   U8: JSON of blocksize, shape, nested_blocksize, nested_offset, ...
//!
//! absmax = nested ? fl(nested_quant_map[code] * nested_absmax[block / nested_blocksize]) + nested_offset : absmax
//! w      = fl(quant_map[code] * absmax)
//!
//! X.weight  I8 [out, in]    X.SCB  F32 [out]    X.weight_format  U8, 0 = rows
//! w      = fl(fl(code * SCB) * 0.007874015718698502)
//! ```
//!
//! Blocks cross rows. GPTQModel writes `_` before the last part of the names and no method after
//! `quant_state`. Source: `QuantState.as_dict`, `dequantize_4bit` and `int8_vectorwise_dequant` of
//! bitsandbytes 0.50.2.

use std::{ops::Range, sync::Arc};

use super::{
    assembly::{Assembly, Taker},
    checks::{expect_elems, finite_values, matrix, mismatch, small_number},
    method::{Method, Reading},
};
use crate::{Dtype, Error, Part, ReadError, Region, Span, Stored, Tensor, json, rows::read_runs};

/// Factor of int8: 1/127 as rounded by bitsandbytes, which differs from the result of a division.
const ONE_127TH: f32 = 0.007_874_016;
/// Bits of the tables that bitsandbytes writes; code 8 of fp4 is -0 in its kernels and 0 in its files.
const NF4: [u32; 16] = [
    0xbf80_0000,
    0xbf32_39b1,
    0xbf06_6b30,
    0xbeca_32a0,
    0xbe91_a24d,
    0xbe3d_353f,
    0xbdba_7871,
    0x0000_0000,
    0x3da2_faff,
    0x3e24_cae3,
    0x3e7c_04dd,
    0x3ead_033a,
    0x3ee1_a4b8,
    0x3f10_07ab,
    0x3f39_13b3,
    0x3f80_0000,
];
const FP4: [u32; 16] = [
    0x0000_0000,
    0x3baa_aaab,
    0x3f2a_aaab,
    0x3f80_0000,
    0x3eaa_aaab,
    0x3f00_0000,
    0x3e2a_aaab,
    0x3e80_0000,
    0x0000_0000,
    0xbbaa_aaab,
    0xbf2a_aaab,
    0xbf80_0000,
    0xbeaa_aaab,
    0xbf00_0000,
    0xbe2a_aaab,
    0xbe80_0000,
];

/// Prefix of each tensor of the state, and the names of the state itself.
struct Spelling {
    before: &'static str,
    states: &'static [&'static str],
}

const SPELLINGS: &[Spelling] = &[
    Spelling { before: ".", states: &["quant_state.bitsandbytes__nf4", "quant_state.bitsandbytes__fp4"] },
    // GPTQModel.
    Spelling { before: "_", states: &["quant_state"] },
];

/// Tensors that are useless without codes.
const OF_CODES: &[&str] =
    &["absmax", "quant_map", "quant_state", "bitsandbytes__nf4", "bitsandbytes__fp4", "SCB", "weight_format"];

pub(super) const BITSANDBYTES: Method = Method {
    name: "bitsandbytes",
    recognized_by: "quant_method `bitsandbytes`; tensors `.absmax` and `.quant_map`, or `.SCB`",
    detect: |quantized| {
        quantized.method_is(&["bitsandbytes"])
            || quantized.has_tensors(&["absmax", "quant_map"])
            || quantized.has_tensors(&["weight_absmax", "weight_quant_map"])
            || quantized.has_tensors(&["SCB"])
    },
    reading: Reading::Decoded(TAKERS),
};

pub(super) const TAKERS: &[Taker] = &[take_4bit, take_8bit, refuse_rest];
/// Name component of states in every file with 4-bit codes of bitsandbytes.
pub(super) const STATE: &str = ".quant_state.bitsandbytes__";

/// Refuses codes or scales that no taker used.
fn refuse_rest(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for tensor in assembly.left() {
        if OF_CODES.iter().any(|ending| tensor.name.ends_with(ending)) {
            return Err(Error::ScalesWithoutCodes { tensor: tensor.name.clone() });
        }
        if matches!(tensor.dtype, Dtype::I8 | Dtype::U8) && tensor.name.ends_with("weight") {
            return Err(Error::CodesWithoutScales { tensor: tensor.name.clone(), dtype: tensor.dtype });
        }
    }
    Ok(())
}

/// Codes of 4 bits over the flattened tensor.
#[derive(Debug)]
struct Blocks {
    /// Tensor of the scales, for messages.
    absmax_name: String,
    codes: Span,
    table: [f32; 16],
    /// Elements of a row, of a block, of the tensor.
    row_elems: u64,
    block: u64,
    n_elems: u64,
    absmax: Absmax,
}

#[derive(Debug)]
enum Absmax {
    Plain(Span),
    /// The table has 256 values; `outer` is (ceil(blocks / outer_block)) f32.
    Nested {
        codes: Span,
        table: Vec<f32>,
        outer: Span,
        outer_block: u64,
        offset: f32,
    },
}

/// Takes every tensor with a state.
fn take_4bit(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    let mut odd_tables = 0;
    for state in assembly.left() {
        let found = SPELLINGS.iter().find_map(|spelling| {
            let ending = spelling.states.iter().find_map(|ending| state.name.strip_suffix(ending));
            Some((ending?.strip_suffix(spelling.before)?, spelling.before))
        });
        if let Some((name, before)) = found {
            odd_tables += u64::from(take_state(assembly, state, name, before)?);
        }
    }
    if odd_tables > 0 {
        assembly.note(format!(
            "{odd_tables} tensors have a `quant_map` that differs from the default of their type; the stored \
                one is used"
        ));
    }
    Ok(())
}

struct State {
    block: u64,
    shape: Vec<u64>,
    n_elems: u64,
    /// Blocks of an outer block, and the offset added to each scale.
    nested: Option<(u64, f32)>,
    is_fp4: bool,
}

/// Replaces codes with the tensor `name`; returns true if its table is unusual.
fn take_state<'a>(
    assembly: &mut Assembly<'a>,
    state: &'a Tensor,
    name: &str,
    before: &str,
) -> Result<bool, Error> {
    let parts = assembly.quantized.parts;
    let State { block, shape, n_elems, nested, is_fp4 } = read_state(parts, state)?;
    let codes = assembly.get(name);
    let codes = codes.ok_or_else(|| Error::ScalesWithoutCodes { tensor: state.name.clone() })?;
    let companion =
        |assembly: &Assembly<'a>, ending: &str| assembly.companion(codes, &format!("{name}{before}{ending}"));
    // Only the bytes count, not the type; a wider type may leave part of its last element unused.
    let (bytes, found) = (n_elems.div_ceil(2), codes.n_bytes());
    if found < bytes || found - bytes >= codes.dtype.bits().div_ceil(8) {
        return Err(mismatch(
            codes,
            format!("{bytes} bytes for shape {shape:?} of its state"),
            format!("{found} bytes"),
        ));
    }
    let (map, absmax) = (companion(assembly, "quant_map")?, companion(assembly, "absmax")?);
    expect_elems(map, &[Dtype::F32], 16)?;
    let values = finite_values(parts, map)?;
    let table: [f32; 16] = std::array::from_fn(|code| values[code]);
    let published = if is_fp4 { &FP4 } else { &NF4 };
    let is_odd = table.iter().zip(published).any(|(value, bits)| *value != f32::from_bits(*bits));
    let blocks = n_elems.div_ceil(block);
    let mut used = vec![state, map, absmax];
    let scales = match nested {
        None => {
            expect_elems(absmax, &[Dtype::F32], blocks)?;
            Absmax::Plain(absmax.span())
        }
        Some((outer_block, offset)) => {
            let (outer, map) =
                (companion(assembly, "nested_absmax")?, companion(assembly, "nested_quant_map")?);
            expect_elems(absmax, &[Dtype::U8], blocks)?;
            expect_elems(outer, &[Dtype::F32], blocks.div_ceil(outer_block))?;
            expect_elems(map, &[Dtype::F32], 256)?;
            used.extend([outer, map]);
            let (codes, outer) = (absmax.span(), outer.span());
            Absmax::Nested { codes, table: finite_values(parts, map)?, outer, outer_block, offset }
        }
    };
    let row_elems = shape.last().copied().unwrap_or(1);
    let stored = Blocks {
        absmax_name: absmax.name.clone(),
        codes: codes.span(),
        table,
        row_elems,
        block,
        n_elems,
        absmax: scales,
    };
    for tensor in used {
        assembly.used(tensor);
    }
    assembly.put(codes, name.to_owned(), shape, Arc::new(stored));
    Ok(is_odd)
}

/// Reads and checks the JSON of a state.
fn read_state(parts: &[Part], tensor: &Tensor) -> Result<State, Error> {
    let bytes = tensor.span().of(parts)?;
    let state = json::parse(&tensor.name, &bytes)?;
    let wrong = |key: &str, expected: &str| {
        let found = state.get(key).map_or("nothing".to_owned(), ToString::to_string);
        mismatch(tensor, format!("{expected} at `{key}`"), found)
    };
    let size = |key: &str| state[key].as_u64().filter(|size| *size > 0).ok_or_else(|| wrong(key, "a size"));
    let quant_type = state["quant_type"].as_str().unwrap_or_default();
    let named = tensor.name.rsplit_once("bitsandbytes__").map(|(_, named)| named);
    if !["nf4", "fp4"].contains(&quant_type) || named.is_some_and(|named| named != quant_type) {
        return Err(wrong("quant_type", "the type of the tensor's name, nf4 or fp4"));
    }
    let dims = state["shape"].as_array().map(|dims| dims.iter().map(|dim| dim.as_u64()).collect());
    let shape: Vec<u64> = dims.flatten().ok_or_else(|| wrong("shape", "a list of sizes"))?;
    let n_elems = shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim));
    let n_elems =
        n_elems.filter(|n| *n > 0).ok_or_else(|| wrong("shape", "sizes with a product of 64 bits"))?;
    let nested = if state.get("nested_blocksize").is_some_and(|size| !size.is_null()) {
        // A JSON double with the value of an f32.
        let offset = state["nested_offset"].as_f64().map(|offset| offset as f32);
        let offset = offset.filter(|offset| offset.is_finite());
        Some((size("nested_blocksize")?, offset.ok_or_else(|| wrong("nested_offset", "a number"))?))
    } else {
        None
    };
    Ok(State { block: size("blocksize")?, shape, n_elems, nested, is_fp4: quant_type == "fp4" })
}

impl Blocks {
    /// Decodes elements `begin..` of the flattened tensor into `out`.
    fn read_flat(&self, parts: &[Part], begin: u64, out: &mut [f32]) -> Result<(), ReadError> {
        let end = begin + out.len() as u64;
        let codes = self.codes.part_of(begin / 2..end.div_ceil(2)).of(parts)?;
        let blocks = begin / self.block..end.div_ceil(self.block);
        let mut left = out;
        let mut at = begin;
        self.absmax.each(parts, blocks, |block, absmax| {
            if !absmax.is_finite() {
                return Err(ReadError::no_value(&self.absmax_name, block, "a finite scale", absmax));
            }
            // w = fl(table * absmax) is the same for each code of a block, so (16) products suffice.
            let table = self.table.map(|value| value * absmax);
            let stop = end.min((block + 1).saturating_mul(self.block));
            let (now, later) = std::mem::take(&mut left).split_at_mut((stop - at) as usize);
            let first = (at / 2 - begin / 2) as usize;
            look_up(&table, &codes[first..], at % 2 == 1, now);
            (left, at) = (later, stop);
            Ok(())
        })
    }
}

/// Values of codes, high half of a byte first; `odd` if the first one is in the low half of its byte.
fn look_up(table: &[f32; 16], codes: &[u8], odd: bool, out: &mut [f32]) {
    let (codes, out) = match (codes, out) {
        ([byte, codes @ ..], [first, out @ ..]) if odd => {
            *first = table[usize::from(byte & 15)];
            (codes, out)
        }
        (codes, out) => (codes, out),
    };
    let (pairs, rest) = out.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(codes) {
        *pair = [table[usize::from(byte >> 4)], table[usize::from(byte & 15)]];
    }
    if let ([last], Some(byte)) = (rest, codes.get(pairs.len())) {
        *last = table[usize::from(byte >> 4)];
    }
}

impl Absmax {
    /// The bytes of the scales of blocks `blocks`.
    fn spans(&self, blocks: &Range<u64>) -> Vec<Span> {
        match self {
            Absmax::Plain(span) => vec![span.part_of(blocks.start * 4..blocks.end * 4)],
            Absmax::Nested { codes, outer, outer_block, .. } => {
                let outer_blocks = blocks.start / outer_block..blocks.end.div_ceil(*outer_block);
                let outer = outer.part_of(outer_blocks.start * 4..outer_blocks.end * 4);
                vec![codes.part_of(blocks.clone()), outer]
            }
        }
    }

    /// Calls `each` for each block of `blocks` with its scale.
    fn each(
        &self,
        parts: &[Part],
        blocks: Range<u64>,
        mut give: impl FnMut(u64, f32) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let spans = self.spans(&blocks);
        match (self, &spans[..]) {
            (Absmax::Nested { table, outer_block, offset, .. }, [codes, outer]) => {
                let (codes, outer) = (codes.of(parts)?, outer.of(parts)?);
                let (outer, _) = outer.as_chunks();
                for (block, code) in blocks.clone().zip(codes.iter()) {
                    let outer = outer[(block / outer_block - blocks.start / outer_block) as usize];
                    // Two roundings: the product, then the sum.
                    let product = table[usize::from(*code)] * f32::from_le_bytes(outer);
                    give(block, product + offset)?;
                }
            }
            (_, spans) => {
                for span in spans {
                    let scales = span.of(parts)?;
                    let (scales, _) = scales.as_chunks();
                    for (block, scale) in blocks.clone().zip(scales) {
                        give(block, f32::from_le_bytes(*scale))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Stored for Blocks {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        read_runs(self.row_elems, rows, columns, out, |first, out| self.read_flat(parts, first, out))
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        let (begin, end) = (rows.start * self.row_elems, (rows.end * self.row_elems).min(self.n_elems));
        let mut spans = vec![self.codes.part_of(begin / 2..end.div_ceil(2))];
        spans.extend(self.absmax.spans(&(begin / self.block..end.div_ceil(self.block))));
        spans
    }
}

/// Integers with a scale for each row.
#[derive(Debug)]
struct ScaledRows {
    codes: Span,
    scales_name: String,
    scales: Span,
    row_elems: u64,
}

/// Takes every tensor with `SCB`.
fn take_8bit(assembly: &mut Assembly<'_>) -> Result<(), Error> {
    for scales in assembly.left() {
        let Some(module) = scales.name.strip_suffix(".SCB") else { continue };
        let name = format!("{module}.weight");
        let codes = assembly.get(&name);
        let codes = codes.ok_or_else(|| Error::ScalesWithoutCodes { tensor: scales.name.clone() })?;
        let [n_rows, row_elems] = matrix(codes)?;
        expect_elems(codes, &[Dtype::I8], n_rows * row_elems)?;
        expect_elems(scales, &[Dtype::F32], n_rows)?;
        if let Some(format) = assembly.get(&format!("{module}.weight_format")) {
            // Others are orders of matrix kernels: col32, col_turing, col_ampere.
            match small_number(assembly.quantized.parts, format)? {
                0 => assembly.used(format),
                other => return Err(mismatch(format, "0, codes in rows", other.to_string())),
            }
        }
        let scales_name = scales.name.clone();
        let stored = ScaledRows { codes: codes.span(), scales_name, scales: scales.span(), row_elems };
        assembly.used(scales);
        assembly.put(codes, name, vec![n_rows, row_elems], Arc::new(stored));
    }
    Ok(())
}

impl Stored for ScaledRows {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let scales = self.scales.part_of(rows.start * 4..rows.end * 4).of(parts)?;
        let codes = self.codes.part_of(rows.start * self.row_elems..rows.end * self.row_elems).of(parts)?;
        let (scales, _) = scales.as_chunks();
        let columns = columns.start as usize..columns.end as usize;
        let n_rows = rows.end - rows.start;
        for (row, scale) in (0..n_rows as usize).zip(scales) {
            let scale = f32::from_le_bytes(*scale);
            if !scale.is_finite() {
                return Err(ReadError::no_value(
                    &self.scales_name,
                    rows.start + row as u64,
                    "a finite scale",
                    scale,
                ));
            }
            let codes = &codes[row * self.row_elems as usize..][columns.clone()];
            let out = &mut out[row * columns.len()..][..columns.len()];
            for (out, code) in out.iter_mut().zip(codes) {
                *out = f32::from(*code as i8) * scale * ONE_127TH;
            }
        }
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        let codes = rows.start * self.row_elems..rows.end * self.row_elems;
        vec![self.codes.part_of(codes), self.scales.part_of(rows.start * 4..rows.end * 4)]
    }
}
