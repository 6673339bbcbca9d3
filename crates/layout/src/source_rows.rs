//! Row maps of one source as strided indexes: groups of source rows, of which pieces are taken.

use crate::row_map::{RowMap, place_in_grid};

/// A [`RowMap`] for an output with a known number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRows {
    /// Output rows of zeros before the others.
    zeros: u64,
    n_source_rows: u64,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Source row i is output row i.
    Same,
    Index(Index),
    /// [`RowMap::GridCorner`].
    Corner {
        from: u64,
        to: u64,
        corner: u8,
    },
}

/// Pieces of groups of source rows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Index {
    /// All pieces of the first group come first, then those of the second. Otherwise, the first piece of all groups, then the second.
    by_group: bool,
    n_groups: u64,
    /// Source rows of a group.
    group: u64,
    /// Rows of all pieces of a group.
    n_taken: u64,
    pieces: Vec<Piece>,
}

/// Source rows of a group, in the order of the output: `start + Σ (row / place % size) * stride`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    start: u64,
    n_rows: u64,
    /// Sorted by stride, the largest first.
    dims: Vec<Dim>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dim {
    size: u64,
    /// Distance in the source.
    stride: u64,
    /// Distance in the output.
    place: u64,
}

impl Piece {
    /// Rows from `start` on. `dims` are pairs of size and stride, the slowest in the output first.
    fn new(start: u64, dims: &[(u64, u64)]) -> Piece {
        let mut n_rows = 1u64;
        let mut placed: Vec<Dim> = Vec::new();
        for &(size, stride) in dims.iter().rev() {
            placed.push(Dim { size, stride, place: n_rows });
            n_rows = n_rows.saturating_mul(size);
        }
        placed.retain(|dim| dim.size > 1);
        placed.sort_by_key(|dim| std::cmp::Reverse(dim.stride));
        Piece { start, n_rows, dims: placed }
    }

    /// Consecutive rows.
    fn rows(start: u64, n_rows: u64) -> Piece {
        Piece::new(start, &[(n_rows, 1)])
    }

    fn source_row(&self, row: u64) -> u64 {
        self.dims.iter().fold(self.start, |source, dim| source + row / dim.place % dim.size * dim.stride)
    }

    fn output_row(&self, source: u64) -> Option<u64> {
        let mut rest = source.checked_sub(self.start)?;
        let mut row = 0;
        // A row that is used several times (stride 0) is first used by the first of its dimension.
        for dim in self.dims.iter().filter(|dim| dim.stride > 0) {
            let digit = (rest / dim.stride).min(dim.size - 1);
            rest -= digit * dim.stride;
            row += digit * dim.place;
        }
        (rest == 0).then_some(row)
    }
}

impl Index {
    /// Groups of `group` rows, in order, for an output of `n_rows` rows.
    fn new(n_rows: u64, group: u64, mut pieces: Vec<Piece>) -> Index {
        pieces.retain(|piece| piece.n_rows > 0);
        let n_taken = pieces.iter().fold(0u64, |sum, piece| sum.saturating_add(piece.n_rows)).max(1);
        Index { by_group: true, n_groups: n_rows / n_taken, group: group.max(1), n_taken, pieces }
    }

    fn source_row(&self, row: u64) -> u64 {
        let (group, mut row) =
            if self.by_group { (row / self.n_taken, row % self.n_taken) } else { (0, row) };
        for piece in &self.pieces {
            if self.by_group {
                if row < piece.n_rows {
                    return group * self.group + piece.source_row(row);
                }
                row -= piece.n_rows;
            } else {
                let n_rows = self.n_groups * piece.n_rows;
                if row < n_rows {
                    return row / piece.n_rows * self.group + piece.source_row(row % piece.n_rows);
                }
                row -= n_rows;
            }
        }
        u64::MAX
    }

    fn output_row(&self, source: u64) -> Option<u64> {
        let (group, within) = (source / self.group, source % self.group);
        let mut before = 0;
        for piece in &self.pieces {
            if let Some(row) = piece.output_row(within) {
                return Some(if self.by_group {
                    group * self.n_taken + before + row
                } else {
                    self.n_groups * before + group * piece.n_rows + row
                });
            }
            before += piece.n_rows;
        }
        None
    }
}

/// Size and stride of the dimensions that interleave the halves of a head of `rows` rows.
fn halves(rows: u64) -> [(u64, u64); 2] {
    [(rows / 2, 1), (2, rows / 2)]
}

impl SourceRows {
    /// Row of the source for an output row; beyond the source for a row of zeros.
    pub fn source_row(&self, row: u64) -> u64 {
        let Some(row) = row.checked_sub(self.zeros) else { return u64::MAX };
        match &self.kind {
            Kind::Same => row,
            Kind::Index(index) => index.source_row(row),
            Kind::Corner { from, to, corner } => {
                let place = |index: u64, is_far: bool| {
                    let (near, _) = place_in_grid(index, *from, *to);
                    if is_far { (near + 1).min(from - 1) } else { near }
                };
                place(row / to, *corner >= 2) * from + place(row % to, corner % 2 == 1)
            }
        }
    }

    /// The inverse: output row of a row of the source, `None` for a row that is not taken. The corners of a grid have no inverse; their
    /// rows are returned unchanged.
    pub fn output_row(&self, source: u64) -> Option<u64> {
        let row = match &self.kind {
            Kind::Same | Kind::Corner { .. } => source,
            Kind::Index(index) => index.output_row(source)?,
        };
        Some(self.zeros.saturating_add(row))
    }

    /// Number of source rows; for [`RowMap::Slice`] the least number. Saturates for a map that does not fit.
    pub fn n_source_rows(&self) -> u64 {
        self.n_source_rows
    }
}

impl RowMap {
    /// The map for an output of `n_rows` rows ([`OutTensor::row_view`](crate::OutTensor::row_view)), which are counted in pieces
    /// ([`RowMap::pieces`]). The layout of the tensor has checked that sizes are multiples of groups and heads.
    pub fn source_rows(&self, n_rows: u64) -> SourceRows {
        let (zeros, n_source_rows, kind) = match *self {
            RowMap::Concat | RowMap::PadEach { .. } => (0, n_rows, Kind::Same),
            RowMap::Pad { rows, .. } => (0, rows, Kind::Same),
            RowMap::GridCorner { from, to, corner } => {
                (0, from.saturating_mul(from), Kind::Corner { from, to, corner })
            }
            RowMap::AfterZeros { zeros, head } => {
                let n_source_rows = n_rows.saturating_sub(zeros);
                let index = Index::new(n_source_rows, head, vec![Piece::new(0, &halves(head))]);
                (zeros, n_source_rows, if head > 0 { Kind::Index(index) } else { Kind::Same })
            }
            _ => {
                let index = self.index(n_rows);
                (0, index.n_groups.saturating_mul(index.group), Kind::Index(index))
            }
        };
        SourceRows { zeros, n_source_rows, kind }
    }

    fn index(&self, n_rows: u64) -> Index {
        // Zero if the map does not fit.
        let per = |rows: u64| n_rows.checked_div(rows).unwrap_or_default();
        let rest = |first: &Piece, of: u64| Piece::rows(first.n_rows, of.saturating_sub(first.n_rows));
        let one_group = |pieces: Vec<Piece>| Index::new(n_rows, n_rows, pieces);
        match *self {
            // Index of a group of one row that is the output's row.
            RowMap::Concat
            | RowMap::PadEach { .. }
            | RowMap::Pad { .. }
            | RowMap::GridCorner { .. }
            | RowMap::AfterZeros { .. } => one_group(vec![Piece::rows(0, n_rows)]),
            RowMap::Slice { start } => {
                Index::new(n_rows, start.saturating_add(n_rows), vec![Piece::rows(start, n_rows)])
            }
            RowMap::Pick { rows, of } => Index::new(n_rows, of, rows.map(|row| Piece::rows(row, 1)).into()),
            RowMap::RopePermute { n_head } => {
                let head = per(n_head);
                Index::new(n_rows, head, vec![Piece::new(0, &halves(head))])
            }
            RowMap::FirstHead { head } => {
                let [position, half] = halves(head);
                one_group(vec![Piece::new(0, &[(per(head), 0), position, half])])
            }
            RowMap::RopeHalves { head, rotated } => {
                let pairs = Piece::new(0, &[(2, 1), (rotated / 2, 2)]);
                let rest = rest(&pairs, head);
                Index::new(n_rows, head, vec![pairs, rest])
            }
            RowMap::Groups { group, start, rows, n_head: 0 } => {
                Index::new(n_rows, group, vec![Piece::rows(start, rows)])
            }
            // A group has complete heads.
            RowMap::Groups { group, start, rows, n_head } => {
                let head = per(n_head).max(1);
                let [position, half] = halves(head);
                Index::new(n_rows, group, vec![Piece::new(start, &[(rows / head, head), position, half])])
            }
            RowMap::Ungroup { queries, keys } => {
                let values = queries.saturating_add(keys);
                let pieces =
                    [(0, queries), (queries, keys), (values, keys)].map(|(at, n)| Piece::rows(at, n));
                Index { by_group: false, ..Index::new(n_rows, values.saturating_add(keys), pieces.into()) }
            }
            RowMap::Regroup { group, parts } => {
                let pieces = parts.map(|(start, n_rows)| Piece::rows(start, n_rows));
                Index { by_group: false, ..Index::new(n_rows, group, pieces.into()) }
            }
            RowMap::Elements { step, start } => Index::new(n_rows, step, vec![Piece::rows(start, 1)]),
            RowMap::Chunks { order } => {
                let chunk = per(order.len() as u64);
                one_group(order.iter().map(|from| Piece::rows(from.saturating_mul(chunk), chunk)).collect())
            }
            RowMap::TileHeads { start, groups, per_group, rows } => {
                let heads = [(per_group, rows), (groups, per_group.saturating_mul(rows)), (rows, 1)];
                one_group(vec![Piece::rows(0, start), Piece::new(start, &heads)])
            }
            RowMap::TileColumns { groups, per_group, .. } => {
                Index::new(n_rows, self.pieces(), vec![Piece::new(0, &[(per_group, 1), (groups, per_group)])])
            }
            RowMap::PairHalves { n_heads, rows } => {
                let heads = Piece::new(0, &[(n_heads, rows), (2, 2), (rows / 4, 4), (2, 1)]);
                let rest = rest(&heads, n_rows);
                one_group(vec![heads, rest])
            }
            RowMap::HalvesByAxis { head, rows } => {
                let pieces = Piece::new(0, &[(3, rows), (2, rows.saturating_mul(3)), (rows, 1)]);
                let rest = rest(&pieces, head);
                Index::new(n_rows, head, vec![pieces, rest])
            }
            RowMap::PermuteHeads { heads, rows } => {
                let [position, half] = halves(rows);
                let heads = Piece::new(0, &[(heads, rows), position, half]);
                let rest = rest(&heads, n_rows);
                one_group(vec![heads, rest])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source rows of all output rows, each checked to have the output row as its inverse.
    fn rows(map: RowMap, n_rows: u64) -> Vec<u64> {
        let rows = map.source_rows(n_rows);
        let sources: Vec<u64> = (0..n_rows).map(|row| rows.source_row(row)).collect();
        for (row, source) in (0..).zip(&sources) {
            assert!(*source == u64::MAX || rows.output_row(*source) == Some(row), "{map:?}: {row}");
        }
        sources
    }

    #[test]
    fn rows_move_as_in_pictures() {
        let x = u64::MAX;
        let order = &[3, 1, 2, 0, 4];
        let cases: &[(RowMap, &[u64])] = &[
            (RowMap::Slice { start: 7 }, &[7, 8, 9]),
            (RowMap::Pick { rows: [4, 2], of: 9 }, &[4, 2]),
            (RowMap::RopePermute { n_head: 2 }, &[0, 2, 1, 3, 4, 6, 5, 7]),
            (RowMap::Groups { group: 4, start: 1, rows: 2, n_head: 0 }, &[1, 2, 5, 6]),
            // Two groups of two heads and two other rows.
            (
                RowMap::Groups { group: 10, start: 0, rows: 8, n_head: 4 },
                &[0, 2, 1, 3, 4, 6, 5, 7, 10, 12, 11, 13, 14, 16, 15, 17],
            ),
            (RowMap::Ungroup { queries: 2, keys: 1 }, &[0, 1, 4, 5, 2, 6, 3, 7]),
            // Two groups of q q k v v v z.
            (
                RowMap::Regroup { group: 7, parts: [(0, 2), (2, 1), (3, 3)] },
                &[0, 1, 7, 8, 2, 9, 3, 4, 5, 10, 11, 12],
            ),
            (RowMap::Elements { step: 2, start: 1 }, &[1, 3, 5, 7]),
            // Two heads of x y x y x y z, of which z is not rotated.
            (RowMap::RopeHalves { head: 7, rotated: 6 }, &[0, 2, 4, 1, 3, 5, 6, 7, 9, 11, 8, 10, 12, 13]),
            (RowMap::Chunks { order }, &[6, 7, 2, 3, 4, 5, 0, 1, 8, 9]),
            (RowMap::TileHeads { start: 1, groups: 2, per_group: 3, rows: 1 }, &[0, 1, 4, 2, 5, 3, 6]),
            (RowMap::TileColumns { groups: 2, per_group: 3, elems: 5 }, &[0, 3, 1, 4, 2, 5]),
            (RowMap::PairHalves { n_heads: 1, rows: 8 }, &[0, 1, 4, 5, 2, 3, 6, 7, 8]),
            (RowMap::HalvesByAxis { head: 7, rows: 1 }, &[0, 3, 1, 4, 2, 5, 6]),
            // Two heads of halves x x y y, then two rows of values.
            (RowMap::PermuteHeads { heads: 2, rows: 4 }, &[0, 2, 1, 3, 4, 6, 5, 7, 8, 9]),
            (RowMap::AfterZeros { zeros: 2, head: 4 }, &[x, x, 0, 2, 1, 3]),
        ];
        for (map, expected) in cases {
            assert_eq!(&rows(*map, expected.len() as u64), expected, "{map:?}");
        }
        assert_eq!(RowMap::AfterZeros { zeros: 2, head: 4 }.source_rows(6).n_source_rows(), 4);
        // Every head of the output is the first head of the source.
        let first = RowMap::FirstHead { head: 4 }.source_rows(8);
        assert_eq!((0..8).map(|row| first.source_row(row)).collect::<Vec<_>>(), [0, 2, 1, 3, 0, 2, 1, 3]);
        assert_eq!((first.output_row(2), first.output_row(4)), (Some(1), None));
    }

    #[test]
    fn maps_have_inverses_for_all_sizes() {
        for (a, b, c) in (1..5).flat_map(|a| (1..5).flat_map(move |b| (1..5).map(move |c| (a, b, c)))) {
            rows(RowMap::RopePermute { n_head: a }, a * b * 2);
            rows(RowMap::TileHeads { start: a - 1, groups: b, per_group: c, rows: a }, a - 1 + a * b * c);
            rows(RowMap::TileColumns { groups: a, per_group: b, elems: 5 }, a * b * c);
            rows(RowMap::PairHalves { n_heads: a, rows: 4 * b }, 4 * a * b + c);
            rows(RowMap::HalvesByAxis { head: 6 * a + b, rows: a }, (6 * a + b) * c);
            rows(RowMap::Ungroup { queries: a, keys: b }, (a + 2 * b) * c);
            let parts = [(1, a), (a + 2, b), (a + b + 2, c)];
            rows(RowMap::Regroup { group: a + b + c + 3, parts }, (a + b + c) * 3);
            // On complete heads, these undo each other.
            let (rotated, n_rows) = (2 * b, 2 * a * b);
            let halves = RowMap::RopeHalves { head: rotated, rotated }.source_rows(n_rows);
            let neighbors = RowMap::RopePermute { n_head: a }.source_rows(n_rows);
            assert!((0..n_rows).all(|row| halves.source_row(neighbors.source_row(row)) == row));
        }
    }
}
