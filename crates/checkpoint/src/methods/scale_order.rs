//! Position of a group's scale among the scales of a tensor: in rows, or in the tiles that tensor cores read.
//!
//! ```text
//! rows    (rows, groups) bytes
//! tiles   (rows / 128, groups / 4) tiles of 512 bytes, both rounded up, padded with zeros; in a tile the scale of row r
//!         and group g, counted from its first, is byte  16 (r % 32) + 4 (r / 32) + g
//! ```
//!
//! Rows are counted over all outer dimensions: tiles do not restart with each matrix. Source: `to_blocked` in
//! `prototype/mx_formats/utils.py` of torchao 0.18.0; cuBLAS, 1D block scaling factors layout.

use std::{borrow::Cow, ops::Range};

use crate::{Part, ReadError, Span};

/// Rows and groups of a tile, and its bytes.
const TILE_ROWS: u64 = 128;
const TILE_GROUPS: u64 = 4;
const TILE_BYTES: u64 = TILE_ROWS * TILE_GROUPS;
/// Rows whose first scales are consecutive in a tile, and the bytes from one to the next.
const STRIPE_ROWS: u64 = 32;
const STRIPE_BYTES: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScaleOrder {
    Rows,
    Tiles,
}

impl ScaleOrder {
    /// Bytes of the scales of `n_rows` rows of `n_groups` groups; `None` on overflow.
    pub fn n_bytes(self, n_rows: u64, n_groups: u64) -> Option<u64> {
        match self {
            ScaleOrder::Rows => n_rows.checked_mul(n_groups),
            ScaleOrder::Tiles => {
                let n_tiles = n_rows.div_ceil(TILE_ROWS).checked_mul(n_groups.div_ceil(TILE_GROUPS))?;
                n_tiles.checked_mul(TILE_BYTES)
            }
        }
    }

    /// Bytes that contain the scales of rows `rows`.
    pub fn place(self, rows: Range<u64>, n_groups: u64) -> Range<u64> {
        match self {
            ScaleOrder::Rows => rows.start * n_groups..rows.end * n_groups,
            ScaleOrder::Tiles => {
                let row_bytes = n_groups.div_ceil(TILE_GROUPS) * TILE_BYTES;
                rows.start / TILE_ROWS * row_bytes..rows.end.div_ceil(TILE_ROWS) * row_bytes
            }
        }
    }

    /// Scales of groups `groups` of a row of `n_groups`.
    pub fn read<'a>(
        self,
        parts: &'a [Part],
        scales: &Span,
        row: u64,
        groups: &Range<u64>,
        n_groups: u64,
    ) -> Result<Cow<'a, [u8]>, ReadError> {
        let place = self.place(row..row + 1, n_groups);
        if self == ScaleOrder::Rows {
            let place = place.start + groups.start..place.start + groups.end;
            return scales.part_of(place).of(parts);
        }
        let tiles = scales.part_of(place).of(parts)?;
        let in_tile = row % TILE_ROWS;
        let begin = in_tile % STRIPE_ROWS * STRIPE_BYTES + in_tile / STRIPE_ROWS * TILE_GROUPS;
        // Four groups of a row are neighbors; the next four are in the next tile.
        let byte =
            |group: u64| tiles[(group / TILE_GROUPS * TILE_BYTES + begin + group % TILE_GROUPS) as usize];
        Ok(groups.clone().map(byte).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiled_scales_fill_whole_tiles() {
        assert_eq!(ScaleOrder::Rows.n_bytes(129, 5), Some(645));
        assert_eq!(ScaleOrder::Tiles.n_bytes(129, 5), Some(4 * 512));
        assert_eq!(ScaleOrder::Tiles.n_bytes(1, 1), Some(512));
        for order in [ScaleOrder::Rows, ScaleOrder::Tiles] {
            assert_eq!(order.n_bytes(u64::MAX, u64::MAX), None, "{order:?}");
        }
        assert_eq!(ScaleOrder::Tiles.place(127..129, 5), 0..4 * 512);
        assert_eq!(ScaleOrder::Tiles.place(128..129, 5), 2 * 512..4 * 512);
    }
}
