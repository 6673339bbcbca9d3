//! Mapping from rows of a checkpoint to rows of the file.

/// Output row -> (source, source row); [`RowMap::source_rows`] computes it. Rows run over all outer dimensions; the rows of a vector
/// are its elements ([`OutTensor::row_view`](crate::OutTensor::row_view) says how to count them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants explain their fields")]
pub enum RowMap {
    /// The rows of the sources, concatenated; with one source, itself.
    Concat,
    /// The rows `start ..` of the only source.
    Slice { start: u64 },
    /// The interleaving of rotary halves that llama needs: rows of each of `n_head` groups go
    /// from (half, position) to (position, half). The inverse of the permutation with which
    /// Hugging Face stores Q and K.
    ///
    /// A head of 4 rows, in the checkpoint and in the file. Hugging Face rotates row i with row i + d/2, llama.cpp
    /// rotates neighbors:
    /// ```text
    /// checkpoint  x0 x1 y0 y1     (halves: all x, then all y)
    /// file        x0 y0 x1 y1     (pairs: position, then half)
    /// ```
    /// Output row 2p + h of a head is its row h d/2 + p.
    ///
    /// Source: `LlamaModel.permute` in `conversion/llama.py`.
    RopePermute { n_head: u64 },
    /// Elements of the first head for every head, rotary halves interleaved as by [`RowMap::RopePermute`].
    ///
    /// Source: `ChameleonModel._reverse_hf_permute` in `conversion/chameleon.py`.
    FirstHead { head: u64 },
    /// Two rows of the only source.
    Pick {
        /// Row range, in output order.
        rows: [u64; 2],
        of: u64,
    },
    /// Rows of the only source, followed by rows of zeros.
    Pad {
        rows: u64,
        /// Rows with those of zeros.
        to: u64,
    },
    /// The inverse of [`RowMap::RopePermute`] on the first rows of each head: from neighbours to halves. Heads that a
    /// checkpoint rotates by neighbours and llama.cpp by halves.
    ///
    /// A head of 6 rows of which 4 are rotated:
    /// ```text
    /// checkpoint  x0 y0 x1 y1 z0 z1
    /// file        x0 x1 y0 y1 z0 z1
    /// ```
    ///
    /// Source: `Glm4Model.normal_to_neox` in `conversion/glm.py`.
    RopeHalves {
        head: u64,
        /// Number of rotated rows, even; the others stay.
        rotated: u64,
    },
    /// A part of the only source, whose rows come in groups: of each group the same few rows.
    /// Takes fused projections apart (one group with three parts, a group for each key head, a
    /// group for each expert, or every other row).
    ///
    /// Groups of 4 rows a b c d, of which 2 from 1 on are taken:
    /// ```text
    /// source  a0 b0 c0 d0 a1 b1 c1 d1
    /// output     b0 c0       b1 c1
    /// ```
    Groups {
        group: u64,
        /// The first row within its group that is taken.
        start: u64,
        rows: u64,
        /// Heads in which rotary halves are then interleaved as by [`RowMap::RopePermute`]; 0
        /// for none.
        n_head: u64,
    },
    /// Groups of queries, keys and values (a group for each head, or for each key head) come apart:
    /// first the queries of all groups, then all keys, then all values, in one tensor still.
    ///
    /// Two groups of two queries, one key, one value:
    /// ```text
    /// source  q0 q1 k0 v0  q2 q3 k1 v1
    /// output  q0 q1 q2 q3  k0 k1  v0 v1
    /// ```
    Ungroup {
        queries: u64,
        /// Rows of keys in a group, and of values.
        keys: u64,
    },
    /// Splits groups: the first part of all groups, then the second part of all, then the third; rows outside
    /// all parts are dropped.
    ///
    /// Two groups of parts q (2 rows), k (1), v (1) and one row z that no part takes:
    /// ```text
    /// source  q0 q1 k0 v0 z0  q2 q3 k1 v1 z1
    /// output  q0 q1 q2 q3  k0 k1  v0 v1
    /// ```
    Regroup {
        group: u64,
        /// For each part its first row within the group and its number of rows. Three, like queries, keys and
        /// values, so that the enum stays `Copy`.
        parts: [(u64, u64); 3],
    },
    /// Every `step`th element of the only source, which is counted element by element (biases of
    /// gate and up that alternate).
    Elements {
        /// The distance of two elements.
        step: u64,
        start: u64,
    },
    /// The rows in as many chunks of the same length as `order` has items; chunk i is chunk
    /// `order[i]` of the source. `order` contains each number below its length once.
    ///
    /// With order [2, 0, 1], chunks A B C of the source become C A B in the output.
    Chunks { order: &'static [u64] },
    /// Heads that are stored by group are tiled: the first head of every group, then the second of every group, and
    /// so on. Rows before `start` stay.
    ///
    /// Two groups of three heads:
    /// ```text
    /// source  a0 a1 a2 b0 b1 b2
    /// output  a0 b0 a1 b1 a2 b2
    /// ```
    ///
    /// Source: `_LinearAttentionVReorderBase._reorder_v_heads` in `conversion/qwen.py`.
    TileHeads {
        /// The first row of the first head.
        start: u64,
        groups: u64,
        per_group: u64,
        rows: u64,
    },
    /// Within each of the first heads, splits pairs of neighboring rows, which alternate between height and
    /// width, into halves. Rows after these heads stay.
    ///
    /// A head of 8 rows:
    /// ```text
    /// source  h0 h1 w0 w1 h2 h3 w2 w3
    /// output  h0 h1 h2 h3 w0 w1 w2 w3
    /// ```
    ///
    /// Source: `KimiK25Model.permute` in `conversion/kimivl.py`.
    PairHalves {
        n_heads: u64,
        /// Rows of a head, a multiple of 4.
        rows: u64,
    },
    /// Each head has two halves of three pieces (time, height, width): pieces of both halves are interleaved.
    /// Rows after these pieces stay at the end of their head.
    ///
    /// A head with pieces of one row, followed by one more row:
    /// ```text
    /// source  ta ha wa tb hb wb z
    /// output  ta tb ha hb wa wb z
    /// ```
    ///
    /// Source: `MiniMaxM3VisionModel._permute_vit_qk` in `conversion/minimax.py`.
    HalvesByAxis {
        /// Rows of a head, at least six pieces.
        head: u64,
        rows: u64,
    },
    /// [`RowMap::RopePermute`] of the first heads; the remaining rows stay (keys and queries of a fused
    /// matrix).
    PermuteHeads { heads: u64, rows: u64 },
    /// Rows of zeros, then those of the only source (adapters, the first of which means none).
    AfterZeros {
        zeros: u64,
        /// Rows of a head in which rotary halves are then interleaved as by [`RowMap::RopePermute`]; 0 without such heads.
        head: u64,
    },
    /// The rows of the sources, concatenated, each followed by rows of zeros.
    PadEach {
        /// Rows of each source, including the rows of zeros.
        to: u64,
    },
    /// One corner of the source cell that contains each row of the output. Source and output are square grids with `from` and `to`
    /// rows per side and coinciding corners. Corners 0 and 1 are above, 2 and 3 below.
    GridCorner {
        /// Rows of a side of the source.
        from: u64,
        /// Rows of a side of the output.
        to: u64,
        corner: u8,
    },
    /// As [`RowMap::TileHeads`] within each row: of every row the pieces of `elems` elements change their places.
    /// The rows that this map counts are these pieces, [`RowMap::pieces`] of each row.
    TileColumns { groups: u64, per_group: u64, elems: u64 },
}

/// Position of row `index` of a line of `to` rows on a line of `from` rows with the same ends: the row before it, and the distance
/// from that row as a fraction of the distance between two rows, in single precision like in torch. `from` is at least 1.
///
/// Source: `area_pixel_compute_source_index` in torch's `UpSample.h`.
pub fn place_in_grid(index: u64, from: u64, to: u64) -> (u64, f32) {
    let scale = if to > 1 { (from - 1) as f32 / (to - 1) as f32 } else { 0.0 };
    let place = scale * index as f32;
    // Never beyond the last row, whatever the rounding.
    let before = (place as u64).min(from - 1);
    (before, place - before as f32)
}

impl RowMap {
    /// Number of pieces per row: 1, except for [`RowMap::TileColumns`].
    pub fn pieces(&self) -> u64 {
        match *self {
            RowMap::TileColumns { groups, per_group, .. } => groups.saturating_mul(per_group).max(1),
            _ => 1,
        }
    }
}
