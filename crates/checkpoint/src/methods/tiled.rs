//! Codes of 4 bits in the tiles of tensor cores: `Int4TilePackedTo4dTensor` of torchao.
//!
//! ```text
//! qdata           I32 [rows / 8, columns / 128, 32, 4], of a matrix padded to multiples of 8 and 1024
//! scale_and_zero  BF16 [columns / g, rows, 2]
//!
//! lane t of a tile has row t / 4; its word i the columns k0 + c, where k0 = 128 · outer + 32 · i and, with
//! p = 2 (t % 4), c is in nibbles 0 to 7:  p, p+8, p+16, p+24, p+1, p+9, p+17, p+25
//!
//! w = fl(fl((code - 8) * scale) + zero)
//! ```
//!
//! torchao rounds both steps to bf16; here they are done in f32. Source: `_convert_weight_to_int4pack` of torch 2.15
//! (`aten/src/ATen/native/cuda/int4mm.cu`), `int4_tile_packed_to_4d_tensor.py` of torchao 0.18.0.

use std::ops::Range;

use super::checks::{mismatch, shape_error, wrong_shape};
use crate::{Error, Part, ReadError, Region, Span, Stored, Tensor, codes::Strided};

/// Rows of a tile, columns of the words of a lane, and words of all lanes of a tile.
const TILE_ROWS: u64 = 8;
const TILE_COLUMNS: u64 = 128;
const TILE_WORDS: u64 = 32 * 4;
/// Column of each nibble of a word, relative to that of the lane.
const COLUMNS: [usize; 8] = [0, 8, 16, 24, 1, 9, 17, 25];

#[derive(Debug)]
pub(super) struct Tiled {
    codes: Span,
    n_tiles: u64,
    #[cfg(test)]
    row_elems: u64,
    group: u64,
    /// Groups of a row without padding.
    n_groups: u64,
    scales: Strided,
    zeros: Strided,
}

impl Tiled {
    /// Matrix of `shape` with these codes and scales and groups of `group` columns.
    pub fn new(codes: &Tensor, both: &Tensor, shape: [u64; 2], group: u64) -> Result<Tiled, Error> {
        let [n_rows, row_elems] = shape;
        let [tile_rows, n_tiles, 32, 4] = codes.shape[..] else {
            return Err(mismatch(
                codes,
                "shape (rows / 8, columns / 128, 32, 4)",
                format!("{:?}", codes.shape),
            ));
        };
        // The tensor has this number of words, so the products fit.
        let (padded_rows, padded_columns) = (tile_rows * TILE_ROWS, n_tiles * TILE_COLUMNS);
        if codes.dtype.bits() != 32 || n_rows > padded_rows || row_elems > padded_columns || row_elems == 0 {
            return Err(wrong_shape(codes, format!("tiles for shape {shape:?}")));
        }
        let n_groups =
            if group > 0 && padded_columns.is_multiple_of(group) { padded_columns / group } else { 0 };
        if n_groups == 0 || both.shape != [n_groups, padded_rows, 2] {
            return Err(shape_error(both, codes, "(groups, padded rows, 2)"));
        }
        let scales = Strided { row_stride: 2, group_stride: 2 * padded_rows, ..Strided::one(both) };
        let zeros_start = both.dtype.bits() / 8;
        let zeros = Strided { span: scales.span.part_of(zeros_start..both.n_bytes()), ..scales.clone() };
        let n_groups = row_elems.div_ceil(group);
        Ok(Tiled {
            codes: codes.span(),
            n_tiles,
            group,
            n_groups,
            scales,
            zeros,
            #[cfg(test)]
            row_elems,
        })
    }

    /// Bytes of the tiles that contain rows `rows`.
    fn place(&self, rows: Range<u64>) -> Span {
        let tiles = rows.start / TILE_ROWS..rows.end.div_ceil(TILE_ROWS);
        let bytes = self.n_tiles * TILE_WORDS * 4;
        self.codes.part_of(tiles.start * bytes..tiles.end * bytes)
    }

    /// The codes of a row in one tile.
    fn codes(&self, tiles: &[u8], row: u64, tile: u64) -> [u8; TILE_COLUMNS as usize] {
        let mut codes = [0; TILE_COLUMNS as usize];
        let lane = row % TILE_ROWS * 4;
        let begin = ((tile * 32 + lane) * 16) as usize;
        let (words, _) = tiles[begin..begin + 64].as_chunks();
        for (index, word) in words.iter().enumerate() {
            let word = u32::from_le_bytes(*word);
            let first = 32 * (index % 4) + 2 * (index / 4);
            for (nibble, column) in COLUMNS.iter().enumerate() {
                codes[first + column] = (word >> (4 * nibble) & 15) as u8;
            }
        }
        codes
    }

    /// Calls `give` with code, scale and zero of each column of `columns` of a row.
    fn each(
        &self,
        parts: &[Part],
        row: u64,
        columns: &Range<u64>,
        mut give: impl FnMut(f32, f32, f32),
    ) -> Result<(), ReadError> {
        let tiles = self.place(row..row + 1).of(parts)?;
        let mut numbers = [vec![0.0; self.n_groups as usize], vec![0.0; self.n_groups as usize]];
        for (strided, out) in [&self.scales, &self.zeros].into_iter().zip(&mut numbers) {
            strided.read(parts, 0, row..row + 1, 0..self.n_groups, out)?;
        }
        let [scales, zeros] = numbers;
        for tile in columns.start / TILE_COLUMNS..columns.end.div_ceil(TILE_COLUMNS) {
            let first = tile * TILE_COLUMNS;
            let codes = self.codes(&tiles, row, tile);
            for column in columns.start.max(first)..columns.end.min(first + TILE_COLUMNS) {
                let group = (column / self.group) as usize;
                give(f32::from(codes[(column - first) as usize]), scales[group], zeros[group]);
            }
        }
        Ok(())
    }
}

impl Stored for Tiled {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let mut out = out.iter_mut();
        for row in rows {
            self.each(parts, row, &columns, |code, scale, zero| {
                if let Some(out) = out.next() {
                    *out = (code - 8.0) * scale + zero;
                }
            })?;
        }
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        // Scales and zeros of a row are spread over the ranges of all groups; they are small and read
        // together.
        vec![self.place(rows.clone()), self.scales.place(0, rows, self.n_groups)]
    }

    fn panel_rows(&self) -> u64 {
        TILE_ROWS
    }

    #[cfg(test)]
    fn pieces(&self, parts: &[Part], rows: Range<u64>) -> Result<[Vec<f32>; 3], ReadError> {
        let mut pieces = [Vec::new(), Vec::new(), Vec::new()];
        for row in rows {
            self.each(parts, row, &(0..self.row_elems), |code, scale, zero| {
                for (piece, value) in pieces.iter_mut().zip([code, scale, zero]) {
                    piece.push(value);
                }
            })?;
        }
        Ok(pieces)
    }
}
