//! Layout of codes in a file.
//!
//! A matrix of codes consists of streams, each along a row or a column; packings differ in the positions of a
//! stream's bits. [`Codes::code`] defines this for one code in plain arithmetic; [`Codes::unpack`] is the
//! fast equivalent.

use std::{borrow::Cow, ops::Range};

use crate::{Part, ReadError, Span, Tensor};

/// Codes of matrices of one shape, (rows, columns) each.
#[derive(Debug, Clone)]
pub(crate) struct Codes {
    /// Tensor of the file, for messages.
    pub name: String,
    pub span: Span,
    /// Bits of a code, 1 to 8.
    pub bits: u32,
    pub packing: Packing,
    /// Direction of the streams: rows or columns of the matrix.
    pub axis: Axis,
    /// Number of streams per matrix.
    pub n_streams: u64,
    /// Number of codes in a stream; the rest of its last word is padding.
    pub n_elems: u64,
    pub matrix_bytes: u64,
    /// Bits that are flipped in every code: the sign bit of two's complement codes, which gives codes with a
    /// zero in the middle.
    pub flip: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Row,
    Column,
}

/// Positions of a stream's bits. Words are little endian, low bits first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Contiguous streams of bits: code `e` at bit `e * bits` after byte `stream * stream_bytes`.
    Dense { stream_bytes: u64 },
    /// Like `Dense`, for codes that do not cross bytes; the first code of a byte is in its highest bits.
    HighFirst { stream_bytes: u64 },
    /// Streams of 32-bit words, in order. Codes do not cross words.
    Words {
        stream_bytes: u64,
        /// Assignment of codes to fields of a word.
        fields: Fields,
    },
    /// A matrix of words (words, streams) with a stream in each column.
    Down {
        /// Bytes per word: 1 or 4.
        word_bytes: u64,
        /// True if codes do not cross word boundaries.
        whole: bool,
    },
    /// Like `Down`, with 32-bit words in planes: `bits` words for 32 codes, first all low bits.
    Planes,
    /// Like `Planes`, with consecutive words of a stream.
    PlanesAlong { stream_bytes: u64 },
    /// Codes of the flattened matrix in parts of `part_elems`: word `i` contains code `i` of every part.
    Parts {
        part_elems: u64,
        /// Bytes per word: 1 or 4.
        word_bytes: u64,
        /// Lowest bit of the code of each part.
        shifts: Vec<u32>,
    },
}

/// Assignment of codes to fields of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fields {
    /// In order.
    Plain,
    /// AWQ's order of eight nibbles: codes 0 to 7 in fields 0, 4, 1, 5, 2, 6, 3, 7.
    Awq,
}

/// Field of each code of a word: `AWQ_REVERSE_ORDER` in `awq/utils/packing_utils.py` of autoawq 0.2.7.post3.
const AWQ_FIELDS: [u64; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Number of codes that fast loops take at a time; rows and columns of [`Codes::unpack`] begin at a multiple
/// of it.
pub(super) const RUN: u64 = 32;

impl Codes {
    /// Codes of one matrix that fills `tensor`, with no flipped bits.
    pub fn new(
        tensor: &Tensor,
        bits: u32,
        packing: Packing,
        axis: Axis,
        [n_streams, n_elems]: [u64; 2],
    ) -> Codes {
        let (name, span, matrix_bytes) = (tensor.name.clone(), tensor.span(), tensor.n_bytes());
        Codes { name, span, bits, packing, axis, n_streams, n_elems, matrix_bytes, flip: 0 }
    }

    /// Codes of one or more matrices (rows, columns) in dense streams, one per row.
    pub fn rows(tensor: &Tensor, bits: u32, flip: u8, shape: [u64; 2], stream_bytes: u64) -> Codes {
        let dense = Codes::new(tensor, bits, Packing::Dense { stream_bytes }, Axis::Row, shape);
        // The file was checked, so the product fits.
        Codes { matrix_bytes: shape[0].saturating_mul(stream_bytes), flip, ..dense }
    }

    /// Bytes of a matrix with these codes; `None` if it does not fit 64 bits.
    pub fn needed_bytes(&self) -> Option<u64> {
        let Codes { n_streams, n_elems, .. } = *self;
        let bits = u64::from(self.bits);
        let dense = n_elems.checked_mul(bits)?;
        match &self.packing {
            Packing::Dense { stream_bytes } | Packing::HighFirst { stream_bytes } => {
                (*stream_bytes >= dense.div_ceil(8)).then(|| n_streams.checked_mul(*stream_bytes))?
            }
            Packing::Words { stream_bytes, .. } => (*stream_bytes >= n_elems.div_ceil(32 / bits) * 4)
                .then(|| n_streams.checked_mul(*stream_bytes))?,
            Packing::Down { word_bytes, whole } => {
                let word_bits = 8 * word_bytes;
                let words =
                    if *whole { n_elems.div_ceil(word_bits / bits) } else { dense.div_ceil(word_bits) };
                words.checked_mul(n_streams)?.checked_mul(*word_bytes)
            }
            Packing::Planes => n_elems.div_ceil(32).checked_mul(4 * bits)?.checked_mul(n_streams),
            Packing::PlanesAlong { stream_bytes } => (*stream_bytes
                >= n_elems.div_ceil(32).checked_mul(4 * bits)?)
            .then(|| n_streams.checked_mul(*stream_bytes))?,
            Packing::Parts { part_elems, word_bytes, shifts } => {
                let all = n_streams.checked_mul(n_elems)?;
                let fits = part_elems.checked_mul(shifts.len() as u64)? >= all;
                fits.then(|| part_elems.checked_mul(*word_bytes))?
            }
        }
    }

    /// Bytes of a row, if each row is a separate range of bytes.
    pub fn row_bytes(&self) -> Option<u64> {
        match (&self.packing, self.axis) {
            (
                Packing::Dense { stream_bytes }
                | Packing::HighFirst { stream_bytes }
                | Packing::Words { stream_bytes, .. },
                Axis::Row,
            ) => Some(*stream_bytes),
            _ => None,
        }
    }

    /// Byte range to read for rows `rows` of a matrix: these rows, or the entire matrix if its rows are not consecutive.
    pub fn place(&self, matrix: u64, rows: Range<u64>) -> Span {
        let begin = matrix * self.matrix_bytes;
        let bytes = match self.row_bytes() {
            Some(row_bytes) => begin + rows.start * row_bytes..begin + rows.end * row_bytes,
            None => begin..begin + self.matrix_bytes,
        };
        self.span.part_of(bytes)
    }

    /// Bytes of rows `rows` of a matrix, and the number of their first row.
    pub fn bytes_of<'a>(
        &self,
        parts: &'a [Part],
        matrix: u64,
        rows: &Range<u64>,
    ) -> Result<(Cow<'a, [u8]>, u64), ReadError> {
        let first_row = if self.row_bytes().is_some() { rows.start } else { 0 };
        Ok((self.place(matrix, rows.clone()).of(parts)?, first_row))
    }

    /// Code `elem` of stream `stream`; `bytes` are those of the matrix. Slow; it defines the result of all
    /// fast paths.
    pub fn code(&self, bytes: &[u8], stream: u64, elem: u64) -> u8 {
        let bits = u64::from(self.bits);
        let mask = (1u32 << bits) - 1;
        let word_at = |at: u64| {
            let at = at as usize;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let code = match &self.packing {
            Packing::Dense { stream_bytes } => {
                let at = (stream * stream_bytes + elem * bits / 8) as usize;
                // Only a code that crosses into the next byte needs it.
                let high = bytes.get(at + 1).copied().unwrap_or_default();
                u32::from(u16::from_le_bytes([bytes[at], high])) >> (elem * bits % 8)
            }
            Packing::HighFirst { stream_bytes } => {
                let at = (stream * stream_bytes + elem * bits / 8) as usize;
                u32::from(bytes[at]) >> (8 - bits - elem * bits % 8)
            }
            Packing::Words { stream_bytes, fields } => {
                let per_word = 32 / bits;
                let field = match fields {
                    Fields::Plain => elem % per_word,
                    Fields::Awq => AWQ_FIELDS[(elem % 8) as usize],
                };
                word_at(stream * stream_bytes + elem / per_word * 4) >> (field * bits)
            }
            Packing::Down { word_bytes, whole } => {
                let word = |index: u64| {
                    let at = (index * self.n_streams + stream) * word_bytes;
                    if *word_bytes == 1 {
                        bytes.get(at as usize).copied().map_or(0, u32::from)
                    } else {
                        word_at(at)
                    }
                };
                let word_bits = 8 * word_bytes;
                let per_word = word_bits / bits;
                if *whole {
                    word(elem / per_word) >> (elem % per_word * bits)
                } else {
                    let (index, shift) = (elem * bits / word_bits, elem * bits % word_bits);
                    let high = if shift + bits > word_bits { u64::from(word(index + 1)) } else { 0 };
                    ((u64::from(word(index)) | high << word_bits) >> shift) as u32
                }
            }
            Packing::Planes => self.planes(elem, |index| word_at((index * self.n_streams + stream) * 4)),
            Packing::PlanesAlong { stream_bytes } => {
                self.planes(elem, |index| word_at(stream * stream_bytes + index * 4))
            }
            Packing::Parts { part_elems, word_bytes, shifts } => {
                let flat = stream * self.n_elems + elem;
                let at = flat % part_elems * word_bytes;
                let word = if *word_bytes == 1 { u32::from(bytes[at as usize]) } else { word_at(at) };
                word >> shifts[(flat / part_elems) as usize]
            }
        };
        (code & mask) as u8 ^ self.flip
    }

    /// Code `elem` of a stream of planes; `word` returns the words.
    fn planes(&self, elem: u64, word: impl Fn(u64) -> u32) -> u32 {
        let bits = u64::from(self.bits);
        let (block, elem) = (elem / 32, elem % 32);
        let (mut first_word, mut shift, mut code) = (block * bits, 0, 0);
        // The widest plane has the lowest bits: 7 = 4 + 2 + 1.
        for width in [8, 4, 2, 1].into_iter().filter(|width| bits & width != 0) {
            let plane = word(first_word + elem * width / 32) >> (elem * width % 32);
            code |= (plane & ((1 << width) - 1)) << shift;
            (first_word, shift) = (first_word + width, shift + width);
        }
        code
    }

    /// Code at a position of the matrix.
    pub fn code_at(&self, bytes: &[u8], row: u64, column: u64) -> u8 {
        match self.axis {
            Axis::Row => self.code(bytes, row, column),
            Axis::Column => self.code(bytes, column, row),
        }
    }

    /// Codes of rows `rows` and columns `columns`, one byte each, a row every `stride` bytes of `out`.
    /// Columns begin at a multiple of [`RUN`] and end at a multiple or at the end of the matrix; `bytes` are
    /// those of the matrix.
    pub fn unpack(&self, bytes: &[u8], rows: Range<u64>, columns: Range<u64>, stride: usize, out: &mut [u8]) {
        let width = (columns.end - columns.start) as usize;
        let first = columns.start;
        match (&self.packing, self.axis) {
            (Packing::Dense { stream_bytes }, Axis::Row) => {
                for (row, out) in rows.zip(out.chunks_mut(stride)) {
                    let begin = row * stream_bytes + first * u64::from(self.bits) / 8;
                    self.spread(&bytes[begin as usize..], &mut out[..width]);
                }
            }
            (Packing::Down { word_bytes: 4, whole: false }, Axis::Row) => {
                self.unpack_down(bytes, rows, columns, stride, out);
            }
            (Packing::Words { stream_bytes, fields: Fields::Awq }, Axis::Column) => {
                self.unpack_nibbles(bytes, *stream_bytes, rows, columns, stride, out);
            }
            (Packing::Down { word_bytes: 1, .. }, Axis::Column) if 8 % self.bits == 0 => {
                // A byte contains codes of neighboring rows, so that a row of codes is a row of bytes.
                let mask = ((1u32 << self.bits) - 1) as u8;
                for (row, out) in rows.zip(out.chunks_mut(stride)) {
                    let bit = row * u64::from(self.bits);
                    let begin = (bit / 8 * self.n_streams + first) as usize;
                    for (out, byte) in out[..width].iter_mut().zip(&bytes[begin..begin + width]) {
                        *out = byte >> (bit % 8) & mask;
                    }
                }
            }
            _ => {
                for (row, out) in rows.zip(out.chunks_mut(stride)) {
                    self.unpack_row(bytes, row, columns.clone(), &mut out[..width]);
                }
                return;
            }
        }
        if self.flip != 0 {
            out.iter_mut().for_each(|code| *code ^= self.flip);
        }
    }

    /// One row of consecutive codes; parts are processed as runs.
    fn unpack_row(&self, bytes: &[u8], row: u64, columns: Range<u64>, out: &mut [u8]) {
        let flat = row * self.n_elems + columns.start;
        if let (Packing::Parts { part_elems, word_bytes: 1, shifts }, Axis::Row) = (&self.packing, self.axis)
        {
            let (part, begin) = (flat / part_elems, flat % part_elems);
            // A row within one part is a run of bytes.
            if begin + (out.len() as u64) <= *part_elems {
                let (shift, mask) = (shifts[part as usize], ((1u32 << self.bits) - 1) as u8);
                let begin = begin as usize;
                for (out, byte) in out.iter_mut().zip(&bytes[begin..]) {
                    *out = (byte >> shift & mask) ^ self.flip;
                }
                return;
            }
        }
        for (column, out) in columns.zip(out) {
            *out = self.code_at(bytes, row, column);
        }
    }

    fn spread(&self, stream: &[u8], out: &mut [u8]) {
        match self.bits {
            1 => spread::<1>(stream, out),
            2 => spread::<2>(stream, out),
            3 => spread::<3>(stream, out),
            4 => spread_nibbles(stream, out),
            5 => spread::<5>(stream, out),
            6 => spread::<6>(stream, out),
            7 => spread::<7>(stream, out),
            _ => out.copy_from_slice(&stream[..out.len()]),
        }
    }

    /// Streams down columns of 32-bit words. Word rows are processed from top to bottom, so that each read is
    /// a run of neighboring streams.
    fn unpack_down(
        &self,
        bytes: &[u8],
        rows: Range<u64>,
        columns: Range<u64>,
        stride: usize,
        out: &mut [u8],
    ) {
        let bits = self.bits as usize;
        let (n_rows, width) = ((rows.end - rows.start) as usize, (columns.end - columns.start) as usize);
        let words = |index: u64| {
            let begin = 4 * (index * self.n_streams + rows.start) as usize;
            bytes[begin..begin + 4 * n_rows].as_chunks::<4>().0
        };
        let first_word = columns.start * u64::from(self.bits) / 32;
        if 32 % bits == 0 {
            let per_word = 32 / bits;
            for (index, begin) in (first_word..).zip((0..width).step_by(per_word)) {
                let n = per_word.min(width - begin);
                for (word, out) in words(index).iter().zip(out.chunks_mut(stride)) {
                    self.spread(word, &mut out[begin..begin + n]);
                }
            }
            return;
        }
        // 32 codes are `bits` words: gathered, they form a dense stream.
        for begin in (0..width).step_by(32) {
            let n = 32.min(width - begin);
            let first = first_word + (begin / 32 * bits) as u64;
            let n_words = (n * bits).div_ceil(32);
            for (row, out) in out.chunks_mut(stride).take(n_rows).enumerate() {
                let mut run = [0; 32];
                for (index, place) in run.chunks_exact_mut(4).take(n_words).enumerate() {
                    place.copy_from_slice(&words(first + index as u64)[row]);
                }
                self.spread(&run, &mut out[begin..begin + n]);
            }
        }
    }

    /// Words of eight nibbles in the order of AWQ, for eight neighboring rows each: (columns, rows / 8)
    /// words.
    fn unpack_nibbles(
        &self,
        bytes: &[u8],
        stream_bytes: u64,
        rows: Range<u64>,
        columns: Range<u64>,
        stride: usize,
        out: &mut [u8],
    ) {
        let width = (columns.end - columns.start) as usize;
        for word in rows.start / 8..rows.end.div_ceil(8) {
            for begin in (0..width).step_by(8) {
                // tile[column] contains the nibbles of eight rows, a byte each.
                let mut tile = [0u64; 8];
                let n = 8.min(width - begin);
                for (column, tile) in (columns.start + begin as u64..).zip(&mut tile[..n]) {
                    let at = (column * stream_bytes + 4 * word) as usize;
                    *tile =
                        nibbles(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
                }
                let tile = transposed(tile);
                for (row, field) in (8 * word..).zip(AWQ_FIELDS) {
                    if rows.contains(&row) {
                        let at = (row - rows.start) as usize * stride + begin;
                        out[at..at + n].copy_from_slice(&tile[field as usize].to_le_bytes()[..n]);
                    }
                }
            }
        }
    }
}

/// Eight codes of `B` bits are `B` bytes.
fn spread<const B: usize>(stream: &[u8], out: &mut [u8]) {
    let eight = |bytes: &[u8; B]| {
        let mut run = [0; 8];
        run[..B].copy_from_slice(bytes);
        let run = u64::from_le_bytes(run);
        std::array::from_fn::<u8, 8, _>(|k| (run >> (k * B)) as u8 & (0xff >> (8 - B)))
    };
    let (runs, rest) = out.as_chunks_mut::<8>();
    let (whole, _) = stream.as_chunks::<B>();
    for (run, bytes) in runs.iter_mut().zip(whole) {
        *run = eight(bytes);
    }
    if !rest.is_empty() {
        // The stream may end inside the bytes of a short last run.
        let mut bytes = [0; B];
        let last = &stream[B * runs.len()..];
        let n_bytes = B.min(last.len());
        bytes[..n_bytes].copy_from_slice(&last[..n_bytes]);
        rest.copy_from_slice(&eight(&bytes)[..rest.len()]);
    }
}

/// Like [`spread`], for eight nibbles at a time without a loop over them.
fn spread_nibbles(stream: &[u8], out: &mut [u8]) {
    let (runs, rest) = out.as_chunks_mut::<8>();
    let (words, _) = stream.as_chunks::<4>();
    for (run, word) in runs.iter_mut().zip(words) {
        *run = nibbles(u32::from_le_bytes(*word)).to_le_bytes();
    }
    let begin = 4 * runs.len();
    for (k, code) in rest.iter_mut().enumerate() {
        *code = stream[begin + k / 2] >> (4 * (k % 2)) & 0x0f;
    }
}

/// The nibbles of a word as bytes, lowest first: moves halves apart, then quarters, then eighths.
fn nibbles(word: u32) -> u64 {
    let word = u64::from(word);
    let word = (word | word << 16) & 0x0000_ffff_0000_ffff;
    let word = (word | word << 8) & 0x00ff_00ff_00ff_00ff;
    (word | word << 4) & 0x0f0f_0f0f_0f0f_0f0f
}

/// Transposes 8 x 8 bytes, `rows[i]` byte `j` to `rows[j]` byte `i`, by exchanging blocks of 4, 2 and 1.
fn transposed(mut rows: [u64; 8]) -> [u64; 8] {
    for (size, mask) in [(4, 0x0000_0000_ffff_ffff), (2, 0x0000_ffff_0000_ffff), (1, 0x00ff_00ff_00ff_00ff)] {
        for low in (0..8).filter(|row| row & size == 0) {
            let shift = 8 * size;
            let (a, b) = (rows[low], rows[low + size]);
            rows[low] = (a & mask) | (b & mask) << shift;
            rows[low + size] = (a >> shift & mask) | (b & !mask);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix of codes in every packing and width, over arbitrary bytes.
    fn all() -> Vec<Codes> {
        let mut all = Vec::new();
        for bits in 1..=8u32 {
            for (n_rows, n_columns) in [(1, 32), (5, 64), (67, 96), (9, 40), (33, 45)] {
                let dense = |n: u64| (n * u64::from(bits)).div_ceil(32) * 4;
                let whole = |n: u64| n.div_ceil(u64::from(32 / bits)) * 4;
                let mut packings = vec![
                    (Packing::Dense { stream_bytes: dense(n_columns) }, Axis::Row),
                    (Packing::Dense { stream_bytes: dense(n_rows) }, Axis::Column),
                    (Packing::Words { stream_bytes: whole(n_columns), fields: Fields::Plain }, Axis::Row),
                    (Packing::Words { stream_bytes: whole(n_rows), fields: Fields::Plain }, Axis::Column),
                    (Packing::Down { word_bytes: 4, whole: false }, Axis::Row),
                    (Packing::Down { word_bytes: 4, whole: true }, Axis::Row),
                    (Packing::Down { word_bytes: 4, whole: false }, Axis::Column),
                    (Packing::Down { word_bytes: 1, whole: false }, Axis::Column),
                    (Packing::Down { word_bytes: 1, whole: false }, Axis::Row),
                    (Packing::Planes, Axis::Row),
                    (
                        Packing::PlanesAlong { stream_bytes: n_rows.div_ceil(32) * 4 * u64::from(bits) },
                        Axis::Column,
                    ),
                ];
                if 8 % bits == 0 {
                    packings.push((Packing::HighFirst { stream_bytes: dense(n_columns) }, Axis::Row));
                    packings.push((Packing::HighFirst { stream_bytes: dense(n_rows) }, Axis::Column));
                }
                if bits == 4 {
                    let fields = Fields::Awq;
                    packings.push((Packing::Words { stream_bytes: whole(n_rows), fields }, Axis::Column));
                    packings.push((Packing::Words { stream_bytes: whole(n_columns), fields }, Axis::Row));
                }
                let n_parts = u64::from(8 / bits);
                let part_elems = (n_rows * n_columns).div_ceil(n_parts);
                let shifts = (0..8 / bits).rev().map(|part| part * bits).collect();
                packings.push((Packing::Parts { part_elems, word_bytes: 1, shifts }, Axis::Row));
                for (packing, axis) in packings {
                    for flip in [0, 1 << (bits - 1)] {
                        let (n_streams, n_elems) = match axis {
                            Axis::Row => (n_rows, n_columns),
                            Axis::Column => (n_columns, n_rows),
                        };
                        let (name, span) = ("codes".to_owned(), Span { part: 0, bytes: 0..0 });
                        let packing = packing.clone();
                        let mut codes = Codes {
                            name,
                            span,
                            bits,
                            packing,
                            axis,
                            n_streams,
                            n_elems,
                            matrix_bytes: 0,
                            flip,
                        };
                        codes.matrix_bytes = codes.needed_bytes().expect("small");
                        all.push(codes);
                    }
                }
            }
        }
        all
    }

    #[test]
    fn fast_unpacking_matches_plain_loop() {
        let mut bytes = vec![0; 1 << 14];
        let mut state = 1u32;
        for byte in &mut bytes {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        for codes in all() {
            // Exactly the bytes that are needed, so that reading past the end panics.
            let bytes = &bytes[..codes.matrix_bytes as usize];
            let (n_rows, n_columns) = match codes.axis {
                Axis::Row => (codes.n_streams, codes.n_elems),
                Axis::Column => (codes.n_elems, codes.n_streams),
            };
            for rows in [0..n_rows, n_rows / 2..n_rows, n_rows / 3..n_rows / 3 + 1] {
                for columns in [0..n_columns, 0..32, 32.min(n_columns - 1) / 32 * 32..n_columns] {
                    let (width, stride) = ((columns.end - columns.start) as usize, 128);
                    let mut out = vec![0xaa; (rows.end - rows.start) as usize * stride];
                    codes.unpack(bytes, rows.clone(), columns.clone(), stride, &mut out);
                    for (row, out) in rows.clone().zip(out.chunks(stride)) {
                        let slow: Vec<u8> =
                            columns.clone().map(|column| codes.code_at(bytes, row, column)).collect();
                        assert_eq!(out[..width], slow, "{codes:?}, row {row}, columns {columns:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn tile_is_transposed() {
        let rows: [u64; 8] = std::array::from_fn(|row| {
            u64::from_le_bytes(std::array::from_fn(|column| (16 * row + column) as u8))
        });
        for (row, found) in transposed(rows).into_iter().enumerate() {
            let expected = std::array::from_fn(|column| (16 * column + row) as u8);
            assert_eq!(found.to_le_bytes(), expected);
        }
    }
}
