//! Mapping from rows of a checkpoint to rows of the file.

/// Output row -> (source, source row). Rows run over all outer dimensions; the rows of a vector
/// are its elements ([`OutTensor::row_view`](crate::OutTensor::row_view) says how to count them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowMap {
    /// The rows of the sources, concatenated; with one source, itself.
    Concat,
    /// The rows `start ..` of the only source.
    Slice {
        /// The first source row.
        start: u64,
    },
    /// The interleaving of rotary halves that llama needs: rows of each of `n_head` groups go
    /// from (half, position) to (position, half). The inverse of the permutation with which
    /// Hugging Face stores Q and K.
    ///
    /// Source: `LlamaModel.permute` in `conversion/llama.py`.
    RopePermute {
        /// Number of heads that the rows are divided into.
        n_head: u64,
    },
    /// Elements of the first head for every head, rotary halves interleaved as by [`RowMap::RopePermute`].
    ///
    /// Source: `ChameleonModel._reverse_hf_permute` in `conversion/chameleon.py`.
    FirstHead {
        /// Elements of a head.
        head: u64,
    },
    /// Two rows of the only source.
    Pick {
        /// Row range, in output order.
        rows: [u64; 2],
        /// Rows of the source.
        of: u64,
    },
    /// Rows of the only source, followed by rows of zeros.
    Pad {
        /// Rows of the source.
        rows: u64,
        /// Rows with those of zeros.
        to: u64,
    },
    /// The inverse of [`RowMap::RopePermute`] on the first rows of each head: from neighbours to halves. Heads that a
    /// checkpoint rotates by neighbours and llama.cpp by halves.
    ///
    /// Source: `Glm4Model.normal_to_neox` in `conversion/glm.py`.
    RopeHalves {
        /// Rows of a head.
        head: u64,
        /// Number of rotated rows, even; the others stay.
        rotated: u64,
    },
    /// A part of the only source, whose rows come in groups: of each group the same few rows.
    /// Takes fused projections apart (one group with three parts, a group for each key head, a
    /// group for each expert, or every other row).
    Groups {
        /// Source rows of a group.
        group: u64,
        /// The first row within its group that is taken.
        start: u64,
        /// Number of rows that are taken of each group.
        rows: u64,
        /// Heads in which rotary halves are then interleaved as by [`RowMap::RopePermute`]; 0
        /// for none.
        n_head: u64,
    },
    /// Groups of queries, keys and values (a group for each head, or for each key head) come apart:
    /// first the queries of all groups, then all keys, then all values, in one tensor still.
    Ungroup {
        /// Rows of queries in a group.
        queries: u64,
        /// Rows of keys in a group, and of values.
        keys: u64,
    },
    /// Splits groups: the first part of all groups, then the second part of all, then the third; rows outside
    /// all parts are dropped.
    Regroup {
        /// Source rows of a group.
        group: u64,
        /// For each part its first row within the group and its number of rows. Three, as of queries, keys and
        /// values, so that the enum stays `Copy`.
        parts: [(u64, u64); 3],
    },
    /// Every `step`th element of the only source, which is counted element by element (biases of
    /// gate and up that alternate).
    Elements {
        /// The distance of two elements.
        step: u64,
        /// The first element.
        start: u64,
    },
    /// The rows in as many chunks of the same length as `order` has items; chunk i is chunk
    /// `order[i]` of the source. `order` holds each number below its length once.
    Chunks {
        /// The order.
        order: &'static [u64],
    },
    /// Heads that are stored by group are tiled: the first head of every group, then the second of every group, and
    /// so on. Rows before `start` stay.
    ///
    /// Source: `_LinearAttentionVReorderBase._reorder_v_heads` in `conversion/qwen.py`.
    TileHeads {
        /// The first row of the first head.
        start: u64,
        /// Number of groups.
        groups: u64,
        /// Heads of a group.
        per_group: u64,
        /// Rows of a head.
        rows: u64,
    },
    /// Within each of the first heads, splits pairs of neighboring rows, which alternate between height and
    /// width, into halves. Rows after these heads stay.
    ///
    /// Source: `KimiK25Model.permute` in `conversion/kimivl.py`.
    PairHalves {
        /// Number of heads.
        n_heads: u64,
        /// Rows of a head, a multiple of 4.
        rows: u64,
    },
    /// Each head has two halves of three pieces (time, height, width): pieces of both halves are interleaved.
    /// Rows after these pieces stay at the end of their head.
    ///
    /// Source: `MiniMaxM3VisionModel._permute_vit_qk` in `conversion/minimax.py`.
    HalvesByAxis {
        /// Rows of a head, at least six pieces.
        head: u64,
        /// Rows of a piece.
        rows: u64,
    },
    /// [`RowMap::RopePermute`] of the first heads; the remaining rows stay (keys and queries of a fused
    /// matrix).
    PermuteHeads {
        /// Number of heads.
        heads: u64,
        /// Rows of a head.
        rows: u64,
    },
    /// Rows of zeros, then those of the only source (adapters, the first of which means none).
    AfterZeros {
        /// Rows of zeros.
        zeros: u64,
        /// Rows of a head in which rotary halves are then interleaved as by [`RowMap::RopePermute`]; 0 for none.
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
        /// The corner.
        corner: u8,
    },
    /// As [`RowMap::TileHeads`] within each row: of every row the pieces of `elems` elements change their places.
    /// The rows that this map counts are these pieces, [`RowMap::pieces`] of each row.
    TileColumns {
        /// Number of groups.
        groups: u64,
        /// Pieces of a group.
        per_group: u64,
        /// Elements of a piece.
        elems: u64,
    },
}

/// Grouped position of a head in tiled order: head v of group g is `v * groups + g` in tiled and `g *
/// per_group + v` in grouped order.
fn grouped(head: u64, groups: u64, per_group: u64) -> u64 {
    head % groups * per_group + head / groups
}

/// Position of row `index` of a line of `to` rows on a line of `from` rows with the same ends: the row before it, and the distance
/// from that row as a fraction of the distance between two rows, in single precision as in torch. `from` is at least 1.
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

    /// Source row for output row `row` of a tensor with `n_rows` rows ([`OutTensor::row_view`](crate::OutTensor::row_view)),
    /// for maps of one source. [`RowMap::Concat`] gives the row itself; the caller finds the
    /// source by row counts, and so does [`RowMap::Pad`], of which the rows beyond the source are zeros. For [`RowMap::RopePermute`], `n_rows` must be a multiple of twice
    /// `n_head`, which `resolve` has checked.
    pub fn source_row(&self, row: u64, n_rows: u64) -> u64 {
        match *self {
            RowMap::Concat | RowMap::Pad { .. } | RowMap::PadEach { .. } => row,
            RowMap::Pick { rows: [first, second], .. } => {
                if row == 0 {
                    first
                } else {
                    second
                }
            }
            RowMap::FirstHead { head } => row % 2 * (head / 2) + row % head / 2,
            RowMap::Slice { start } => start + row,
            // A head of 4 rows, in the checkpoint and in the file. Hugging Face rotates row i with row i + d/2, llama.cpp
            // rotates neighbours:
            //   checkpoint  x0 x1 y0 y1     (halves: all x, then all y)
            //   file        x0 y0 x1 y1     (pairs: position, then half)
            // Output row 2p + h of a head is row h d/2 + p of it.
            RowMap::RopePermute { n_head } => {
                let head_rows = n_rows / n_head;
                let (head, within) = (row / head_rows, row % head_rows);
                let (position, half) = (within / 2, within % 2);
                head * head_rows + half * (head_rows / 2) + position
            }
            // A head of 6 rows of which 4 are rotated:
            //   checkpoint  x0 y0 x1 y1 z0 z1
            //   file        x0 x1 y0 y1 z0 z1
            RowMap::RopeHalves { head, rotated } => match row % head {
                within if within >= rotated => row,
                within => row - within + within % (rotated / 2) * 2 + within / (rotated / 2),
            },
            // Groups of 4 rows a b c d, of which 2 from 1 on are taken:
            //   source  a0 b0 c0 d0 a1 b1 c1 d1
            //   output     b0 c0       b1 c1
            // The rows taken from Q and K are then permuted by head, so the permutation is undone first.
            RowMap::Groups { group, start, rows, n_head } => {
                let row =
                    if n_head > 0 { RowMap::RopePermute { n_head }.source_row(row, n_rows) } else { row };
                row / rows * group + start + row % rows
            }
            // Two groups of two queries, one key, one value:
            //   source  q0 q1 k0 v0  q2 q3 k1 v1
            //   output  q0 q1 q2 q3  k0 k1  v0 v1
            RowMap::Ungroup { queries, keys } => {
                let group = queries + 2 * keys;
                let n_groups = n_rows / group;
                let (all_queries, all_keys) = (n_groups * queries, n_groups * keys);
                // Output rows below n_groups * queries are queries; the rest are keys, then values, of
                // equal number.
                if row < all_queries {
                    return row / queries * group + row % queries;
                }
                let (part, row) = ((row - all_queries) / all_keys, (row - all_queries) % all_keys);
                row / keys * group + queries + part * keys + row % keys
            }
            // Two groups of parts q (2 rows), k (1), v (1) and one row z that no part takes:
            //   source  q0 q1 k0 v0 z0  q2 q3 k1 v1 z1
            //   output  q0 q1 q2 q3  k0 k1  v0 v1
            RowMap::Regroup { group, parts } => {
                let taken: u64 = parts.iter().map(|(_, rows)| rows).sum();
                let n_groups = n_rows / taken;
                let mut row = row;
                // Each part has `n_groups * rows` output rows; the row is one of the first part that it
                // is not beyond.
                for (start, rows) in parts {
                    if row < n_groups * rows {
                        return row / rows * group + start + row % rows;
                    }
                    row -= n_groups * rows;
                }
                // Not reached: the parts have `n_rows` rows together.
                row
            }
            RowMap::Elements { step, start } => row * step + start,
            // With order [2, 0, 1], chunks A B C of the source become C A B in the output.
            RowMap::Chunks { order } => {
                let chunk = n_rows / order.len() as u64;
                order[(row / chunk) as usize] * chunk + row % chunk
            }
            // Two groups of three heads:
            //   source  a0 a1 a2 b0 b1 b2
            //   output  a0 b0 a1 b1 a2 b2
            RowMap::TileHeads { start, groups, per_group, rows } => match row.checked_sub(start) {
                None => row,
                Some(row) => start + grouped(row / rows, groups, per_group) * rows + row % rows,
            },
            // A head of 8 rows:
            //   source  h0 h1 w0 w1 h2 h3 w2 w3
            //   output  h0 h1 h2 h3 w0 w1 w2 w3
            RowMap::PairHalves { n_heads, rows } => {
                if row >= n_heads * rows {
                    return row;
                }
                let (head, within) = (row / rows, row % rows);
                let (half, pair, last) = (within / (rows / 2), within % (rows / 2) / 2, within % 2);
                head * rows + pair * 4 + half * 2 + last
            }
            // A head with pieces of one row, followed by one more row:
            //   source  ta ha wa tb hb wb z
            //   output  ta tb ha hb wa wb z
            RowMap::HalvesByAxis { head, rows } => match row % head {
                within if within >= 6 * rows => row,
                within => row - within + grouped(within / rows, 2, 3) * rows + within % rows,
            },
            RowMap::GridCorner { from, to, corner } => {
                let place = |index: u64, is_far: bool| {
                    let (near, _) = place_in_grid(index, from, to);
                    if is_far { (near + 1).min(from - 1) } else { near }
                };
                place(row / to, corner >= 2) * from + place(row % to, corner % 2 == 1)
            }
            RowMap::TileColumns { groups, per_group, .. } => {
                let pieces = groups * per_group;
                row / pieces * pieces + grouped(row % pieces, groups, per_group)
            }
            RowMap::PermuteHeads { heads, rows } => match row < heads * rows {
                true => RowMap::RopePermute { n_head: heads }.source_row(row, heads * rows),
                false => row,
            },
            // No source has a row of that number.
            RowMap::AfterZeros { zeros, head } => match row.checked_sub(zeros) {
                None => u64::MAX,
                Some(row) if head > 0 => {
                    row / head * head + RowMap::RopePermute { n_head: 1 }.source_row(row % head, head)
                }
                Some(row) => row,
            },
        }
    }

    /// Number of source rows of which this map makes `n_rows`; for [`RowMap::Slice`] the least number.
    /// Saturates for a map that does not fit.
    pub fn n_source_rows(&self, n_rows: u64) -> u64 {
        let group_rows = |taken: u64, group: u64| (n_rows / taken.max(1)).saturating_mul(group);
        match *self {
            RowMap::Slice { start } => start.saturating_add(n_rows),
            RowMap::Pad { rows, .. } => rows,
            RowMap::Pick { of, .. } => of,
            RowMap::GridCorner { from, .. } => from.saturating_mul(from),
            RowMap::AfterZeros { zeros, .. } => n_rows.saturating_sub(zeros),
            RowMap::Groups { group, rows, .. } => group_rows(rows, group),
            RowMap::Regroup { group, parts } => group_rows(parts.iter().map(|(_, rows)| rows).sum(), group),
            RowMap::Elements { step, .. } => n_rows.saturating_mul(step),
            RowMap::Concat
            | RowMap::PadEach { .. }
            | RowMap::RopePermute { .. }
            | RowMap::RopeHalves { .. }
            | RowMap::FirstHead { .. }
            | RowMap::Ungroup { .. }
            | RowMap::Chunks { .. }
            | RowMap::TileHeads { .. }
            | RowMap::PairHalves { .. }
            | RowMap::HalvesByAxis { .. }
            | RowMap::TileColumns { .. }
            | RowMap::PermuteHeads { .. } => n_rows,
        }
    }

    /// The inverse: the output row to which source row `row` went, for maps of one source whose
    /// output has `n_rows` rows. [`RowMap::source_row`] of it is `row` again.
    pub fn output_row(&self, row: u64, n_rows: u64) -> u64 {
        match *self {
            RowMap::Concat | RowMap::Pad { .. } | RowMap::PadEach { .. } => row,
            // Not invertible: a source row is a corner of several cells, or of none.
            RowMap::GridCorner { .. } => row,
            RowMap::Pick { rows: [first, _], .. } => u64::from(row != first),
            // Rows of other heads are dropped and never looked up.
            RowMap::FirstHead { head } => row % (head / 2) * 2 + row % head / (head / 2),
            RowMap::Slice { start } => row - start,
            RowMap::RopePermute { n_head } => {
                let head_rows = n_rows / n_head;
                let (head, within) = (row / head_rows, row % head_rows);
                let (half, position) = (within / (head_rows / 2), within % (head_rows / 2));
                head * head_rows + position * 2 + half
            }
            RowMap::RopeHalves { head, rotated } => match row % head {
                within if within >= rotated => row,
                within => row - within + within % 2 * (rotated / 2) + within / 2,
            },
            RowMap::Groups { group, start, rows, n_head } => {
                let row = row / group * rows + row % group - start;
                if n_head > 0 { RowMap::RopePermute { n_head }.output_row(row, n_rows) } else { row }
            }
            RowMap::Ungroup { queries, keys } => {
                let group = queries + 2 * keys;
                let n_groups = n_rows / group;
                let (index, within) = (row / group, row % group);
                match within.checked_sub(queries) {
                    None => index * queries + within,
                    Some(within) => {
                        let part = within / keys;
                        n_groups * (queries + part * keys) + index * keys + within % keys
                    }
                }
            }
            RowMap::Regroup { group, parts } => {
                let taken: u64 = parts.iter().map(|(_, rows)| rows).sum();
                let (n_groups, index, within) = (n_rows / taken, row / group, row % group);
                let mut before = 0;
                for (start, rows) in parts {
                    if within >= start && within - start < rows {
                        return before + index * rows + (within - start);
                    }
                    before += n_groups * rows;
                }
                // Not reached for a row that a part takes, which is all that callers ask about.
                row
            }
            RowMap::Elements { step, start } => (row - start) / step,
            RowMap::Chunks { order } => {
                let chunk = n_rows / order.len() as u64;
                let from = row / chunk;
                // Every chunk is somewhere in the order.
                let to = order.iter().position(|source| *source == from).unwrap_or_default();
                to as u64 * chunk + row % chunk
            }
            // Tiling by groups is undone by tiling by heads.
            RowMap::TileHeads { start, groups, per_group, rows } => {
                RowMap::TileHeads { start, groups: per_group, per_group: groups, rows }
                    .source_row(row, n_rows)
            }
            RowMap::PairHalves { n_heads, rows } => {
                if row >= n_heads * rows {
                    return row;
                }
                let (head, within) = (row / rows, row % rows);
                head * rows + within % 4 / 2 * (rows / 2) + within / 4 * 2 + within % 2
            }
            RowMap::HalvesByAxis { head, rows } => match row % head {
                within if within >= 6 * rows => row,
                within => row - within + grouped(within / rows, 3, 2) * rows + within % rows,
            },
            RowMap::TileColumns { groups, per_group, elems } => {
                RowMap::TileColumns { groups: per_group, per_group: groups, elems }.source_row(row, n_rows)
            }
            RowMap::PermuteHeads { heads, rows } => match row < heads * rows {
                true => RowMap::RopePermute { n_head: heads }.output_row(row, heads * rows),
                false => row,
            },
            RowMap::AfterZeros { zeros, head: 0 } => zeros + row,
            RowMap::AfterZeros { zeros, head } => {
                zeros + row / head * head + RowMap::RopePermute { n_head: 1 }.output_row(row % head, head)
            }
        }
    }
}
