//! Rows of a tensor as `f32`.
//!
//! Every conversion equals torch's `.to(torch.float32)`: exact if the value fits, else the nearest, ties to
//! even. Signaling f16 and fp8 NaNs become quiet, like with the processor's own instruction. The loops are
//! plain and free of branches, so that the compiler vectorizes them.

use std::ops::Range;

use gguf_types::half::{bf16_to_f32, f16_to_f32};

use crate::{Dtype, Part, ReadError, Region, Tensor, View};

/// Reads rows `first_row .. first_row + n_rows` into `out`, which is (n_rows, row_elems) f32.
///
/// Rows run over all outer dimensions: a tensor of shape `(a, b, c)` has `a * b` rows of `c`
/// elements; a vector is one row, a scalar one row of one element.
///
/// # Errors
/// [`ReadError`], without writing to `out`.
pub fn read_rows(view: &View<'_>, first_row: u64, n_rows: u64, out: &mut [f32]) -> Result<(), ReadError> {
    let tensor = || view.name.to_owned();
    let dtype = view.dtype;
    if !dtype.is_readable() {
        return Err(ReadError::Unreadable { tensor: tensor(), dtype });
    }
    let end_row = first_row.saturating_add(n_rows);
    if end_row > view.n_rows() {
        return Err(ReadError::OutOfRange { tensor: tensor(), first_row, end_row, n_rows: view.n_rows() });
    }
    // Within the tensor, whose size in bytes was checked when it was opened.
    let n_elems = n_rows * view.row_elems();
    if out.len() as u64 != n_elems {
        return Err(ReadError::Length { tensor: tensor(), expected: n_elems, found: out.len() as u64 });
    }
    let elem_bytes = (dtype.bits() / 8) as usize;
    let begin = (first_row * view.row_elems()) as usize * elem_bytes;
    to_f32(dtype, &view.bytes[begin..begin + out.len() * elem_bytes], out);
    Ok(())
}

/// Reads elements `elems` of a tensor of the weights files `parts`, regardless of its dimensions, into `out`, which has their
/// number.
///
/// # Errors
/// [`ReadError`].
pub fn read_elements(
    parts: &[Part],
    tensor: &Tensor,
    elems: Range<u64>,
    out: &mut [f32],
) -> Result<(), ReadError> {
    let own = tensor.row_elems();
    let out = &mut out[..(elems.end - elems.start) as usize];
    read_regions(own, elems.start, out, |Region { rows, columns }, out| {
        read_columns(parts, tensor, rows, columns, out)
    })
}

/// Reads the elements of a flattened matrix from `first` on through `read`, which receives regions with their part of `out`: the
/// rest of a row, complete rows, the start of a row.
///
/// # Errors
/// Those of `read`.
pub fn read_regions(
    row_elems: u64,
    first: u64,
    mut out: &mut [f32],
    mut read: impl FnMut(Region, &mut [f32]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut elem = first;
    while !out.is_empty() {
        let (row, column, left) = (elem / row_elems, elem % row_elems, out.len() as u64);
        let whole = if column == 0 { left / row_elems } else { 0 };
        let (rows, columns) = match whole {
            0 => (row..row + 1, column..row_elems.min(column + left)),
            n => (row..row + n, 0..row_elems),
        };
        let n_elems = (rows.end - rows.start) * (columns.end - columns.start);
        let (now, later) = out.split_at_mut(n_elems as usize);
        read(Region { rows, columns }, now)?;
        (elem, out) = (elem + n_elems, later);
    }
    Ok(())
}

/// Reads columns `columns` of rows `rows` of a tensor of the weights files `parts`, by its own row length, into `out`,
/// which is (rows, columns) f32.
///
/// # Errors
/// [`ReadError`].
pub fn read_columns(
    parts: &[Part],
    tensor: &Tensor,
    rows: Range<u64>,
    columns: Range<u64>,
    out: &mut [f32],
) -> Result<(), ReadError> {
    let row_elems = tensor.row_elems();
    if columns.start > columns.end || columns.end > row_elems {
        let (expected, found) = (row_elems, columns.end);
        return Err(ReadError::Length { tensor: tensor.name.clone(), expected, found });
    }
    let n_columns = columns.end - columns.start;
    check_range(tensor, &rows, tensor.n_rows(), n_columns, out)?;
    match &tensor.stored {
        _ if out.is_empty() => Ok(()),
        Some(stored) => stored.read(parts, Region { rows, columns }, out),
        None => read_runs(row_elems, rows, columns, out, |first, out| read_elems(parts, tensor, first, out)),
    }
}

/// Reads columns `columns` of rows `rows` through `read`, which receives an element index of the flattened
/// tensor and the destination from there on: complete rows are one run, partial rows one run each.
///
/// # Errors
/// Those of `read`.
pub fn read_runs(
    row_elems: u64,
    rows: Range<u64>,
    columns: Range<u64>,
    out: &mut [f32],
    mut read: impl FnMut(u64, &mut [f32]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let n_columns = columns.end - columns.start;
    let run = if n_columns == row_elems { out.len() } else { n_columns as usize };
    for (row, out) in rows.zip(out.chunks_exact_mut(run.max(1))) {
        read(row * row_elems + columns.start, out)?;
    }
    Ok(())
}

/// Fills `out` with elements of a plain tensor from its element `first` on. Only their bytes are read,
/// because the file may be fetched.
pub(crate) fn read_elems(
    parts: &[Part],
    tensor: &Tensor,
    first: u64,
    out: &mut [f32],
) -> Result<(), ReadError> {
    let Tensor { name, dtype, .. } = tensor;
    let n_elems = out.len() as u64;
    let place = |elem: u64| elem * dtype.bits() / 8;
    let bytes = tensor.span().part_of(place(first)..place(first + n_elems)).of(parts)?;
    read_rows(&View { name, dtype: *dtype, shape: &[n_elems], bytes }, 0, 1, out)
}

/// Checks for a decoder that rows `rows` are within `n_rows` and that the buffer has their size.
pub(crate) fn check_range(
    tensor: &Tensor,
    rows: &Range<u64>,
    n_rows: u64,
    row_elems: u64,
    out: &[f32],
) -> Result<(), ReadError> {
    let name = || tensor.name.clone();
    if rows.start > rows.end || rows.end > n_rows {
        let (first_row, end_row) = (rows.start, rows.end);
        return Err(ReadError::OutOfRange { tensor: name(), first_row, end_row, n_rows });
    }
    let n_elems = (rows.end - rows.start).saturating_mul(row_elems);
    if out.len() as u64 != n_elems {
        return Err(ReadError::Length { tensor: name(), expected: n_elems, found: out.len() as u64 });
    }
    Ok(())
}

/// Fills `out` with elements of a readable type.
pub(crate) fn to_f32(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F32 => each(bytes, out, f32::from_le_bytes),
        Dtype::F64 => each(bytes, out, |b| f64::from_le_bytes(b) as f32),
        Dtype::F16 => each(bytes, out, |b| f16_to_f32(u16::from_le_bytes(b))),
        Dtype::BF16 => each(bytes, out, |b| bf16_to_f32(u16::from_le_bytes(b))),
        Dtype::I64 => each(bytes, out, |b| i64::from_le_bytes(b) as f32),
        Dtype::I32 => each(bytes, out, |b| i32::from_le_bytes(b) as f32),
        Dtype::I16 => each(bytes, out, |b| f32::from(i16::from_le_bytes(b))),
        Dtype::I8 => each(bytes, out, |b: [u8; 1]| f32::from(b[0] as i8)),
        Dtype::U64 => each(bytes, out, |b| u64::from_le_bytes(b) as f32),
        Dtype::U32 => each(bytes, out, |b| u32::from_le_bytes(b) as f32),
        Dtype::U16 => each(bytes, out, |b| f32::from(u16::from_le_bytes(b))),
        Dtype::U8 => each(bytes, out, |b: [u8; 1]| f32::from(b[0])),
        Dtype::BOOL => each(bytes, out, |b: [u8; 1]| f32::from(u8::from(b[0] != 0))),
        Dtype::F8_E5M2 => each(bytes, out, |b: [u8; 1]| f16_to_f32(u16::from(b[0]) << 8)),
        Dtype::F8_E4M3 => each(bytes, out, |b: [u8; 1]| f8_e4m3_to_f32(b[0])),
        Dtype::F8_E8M0 => each(bytes, out, |b: [u8; 1]| f8_e8m0_to_f32(b[0])),
        Dtype::F8_E4M3FNUZ
        | Dtype::F8_E5M2FNUZ
        | Dtype::F6_E2M3
        | Dtype::F6_E3M2
        | Dtype::F4
        | Dtype::C64 => {
            unreachable!("the caller has checked `is_readable`")
        }
    }
}

/// Converts each element; lengths agree.
fn each<const N: usize>(bytes: &[u8], out: &mut [f32], convert: impl Fn([u8; N]) -> f32) {
    let (elems, _) = bytes.as_chunks::<N>();
    for (out, elem) in out.iter_mut().zip(elems) {
        *out = convert(*elem);
    }
}

/// Bias 7, all ones is NaN, no infinity.
#[inline]
fn f8_e4m3_to_f32(byte: u8) -> f32 {
    let magnitude = u32::from(byte & 0x7f);
    let bits = match magnitude {
        0x7f => 0x7ff0_0000,
        0..8 => (magnitude as f32 / 512.0).to_bits(),
        _ => (magnitude << 20) + ((127 - 7) << 23),
    };
    f32::from_bits(bits | u32::from(byte & 0x80) << 24)
}

/// 2^(byte - 127); all ones is NaN.
#[inline]
fn f8_e8m0_to_f32(byte: u8) -> f32 {
    f32::from_bits(match byte {
        0 => 0x0040_0000,
        255 => 0x7f80_0001,
        _ => u32::from(byte) << 23,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
        let shape = [bytes.len() as u64 / (dtype.bits() / 8)];
        let mut out = vec![f32::NAN; shape[0] as usize];
        read_rows(&View { name: "t", dtype, shape: &shape, bytes: bytes.into() }, 0, 1, &mut out).unwrap();
        out
    }

    fn hash(values: &[f32]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_bits().to_le_bytes()).collect();
        gguf_testkit::sha256(&bytes)
    }

    /// Compares every bit pattern of every small float with torch.
    ///
    /// The hashes are those of `arange(2^bits).view(dtype).to(torch.float32)` as little-endian
    /// bytes, torch 2.15; see `golden/MANIFEST`.
    #[test]
    fn every_bit_pattern_matches_torch() {
        let golden = include_str!("../../../golden/source/to_f32.txt");
        let patterns16: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let patterns8: Vec<u8> = (0..=u8::MAX).collect();
        let mut n_lines = 0;
        for line in golden.lines() {
            let (name, expected) = line.split_once(' ').unwrap();
            let dtype = Dtype::from_name(name).unwrap();
            let patterns = if dtype.bits() == 16 { &patterns16 } else { &patterns8 };
            assert_eq!(hash(&read(dtype, patterns)), expected, "{dtype}");
            n_lines += 1;
        }
        let n_small = Dtype::ALL.iter().filter(|dtype| dtype.is_readable() && dtype.bits() <= 16).count();
        assert_eq!(n_lines, n_small);
    }

    #[test]
    fn wide_numbers_round_to_nearest_even() {
        let f64s = [0.1, 1e300, -1e-300, 16_777_217.0, 16_777_219.0, f64::MIN_POSITIVE, -0.0, f64::INFINITY];
        let expected = [0.1f32, f32::INFINITY, -0.0, 16_777_216.0, 16_777_220.0, 0.0, -0.0, f32::INFINITY];
        let read64 = read(Dtype::F64, &f64s.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
        assert_eq!(read64.map_bits(), expected.to_vec().map_bits());
        let ints = [16_777_217i64, 16_777_219, -16_777_217, i64::MAX, i64::MIN, 0, -1];
        let expected =
            [16_777_216.0f32, 16_777_220.0, -16_777_216.0, 2f32.powi(63), -2f32.powi(63), 0.0, -1.0];
        assert_eq!(
            read(Dtype::I64, &ints.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()),
            expected
        );
        assert_eq!(read(Dtype::I32, &(-5i32).to_le_bytes()), [-5.0]);
        assert_eq!(read(Dtype::U32, &u32::MAX.to_le_bytes()), [4_294_967_296.0]);
        assert_eq!(read(Dtype::U64, &u64::MAX.to_le_bytes()), [2f32.powi(64)]);
        assert_eq!(read(Dtype::F32, &1.5f32.to_le_bytes()), [1.5]);
    }

    trait MapBits {
        fn map_bits(&self) -> Vec<u32>;
    }

    impl MapBits for Vec<f32> {
        fn map_bits(&self) -> Vec<u32> {
            self.iter().map(|v| v.to_bits()).collect()
        }
    }

    #[test]
    fn row_ranges_are_read() {
        let bytes: Vec<u8> = (0..24u8).collect();
        let shape = [2, 3, 4];
        let view = View { name: "t", dtype: Dtype::U8, shape: &shape, bytes: bytes[..].into() };
        let mut out = [0.0; 8];
        read_rows(&view, 1, 2, &mut out).unwrap();
        assert_eq!(out, [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        read_rows(&view, 6, 0, &mut []).unwrap();
        let out_of_range = ReadError::OutOfRange { tensor: "t".into(), first_row: 5, end_row: 7, n_rows: 6 };
        assert_eq!(read_rows(&view, 5, 2, &mut out), Err(out_of_range));
        assert!(matches!(read_rows(&view, 1, u64::MAX, &mut out), Err(ReadError::OutOfRange { .. })));
        let length = ReadError::Length { tensor: "t".into(), expected: 4, found: 8 };
        assert_eq!(read_rows(&view, 0, 1, &mut out), Err(length));
        let fp4 = View { dtype: Dtype::F4, ..view };
        assert_eq!(
            read_rows(&fp4, 0, 1, &mut out),
            Err(ReadError::Unreadable { tensor: "t".into(), dtype: Dtype::F4 })
        );
        let scalar = View { name: "s", dtype: Dtype::U8, shape: &[], bytes: [7][..].into() };
        read_rows(&scalar, 0, 1, &mut out[..1]).unwrap();
        assert_eq!(out[0], 7.0);
    }

    #[test]
    fn every_readable_type_has_a_loop() {
        for dtype in Dtype::ALL.iter().copied().filter(|dtype| dtype.is_readable()) {
            assert_eq!(read(dtype, &[0; 32]).len() as u64, 256 / dtype.bits());
        }
    }
}
