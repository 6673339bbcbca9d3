//! What an architecture makes of a checkpoint: metadata, and for each output tensor where
//! its rows come from. A layout is data; nothing in it reads a weight.

use gguf::Metadata;
use serde_json::Value as Json;
use tensor::{DType, Shape};

/// A resolved model.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// The name that `general.architecture` holds (`llama`).
    pub architecture: &'static str,
    /// Keys in the order of the reference converter, all but `general.file_type` and
    /// `general.quantization_version`, which belong to the recipe. Where the reference puts
    /// those two is marked by [`Layout::file_type_at`].
    pub metadata: Metadata,
    /// Index into [`Layout::metadata`] before which the reference converter writes
    /// `general.file_type`; none where it does not write it.
    pub file_type_at: Option<usize>,
    /// Index into [`Layout::metadata`] before which the reference converter writes
    /// `general.quantization_version`.
    pub quantization_version_at: usize,
    /// The file type that the reference gives to float files of this checkpoint, id and name, where
    /// it is not theirs: that of weights which are quantized already and stay so.
    pub packed_file_type: Option<(u32, &'static str)>,
    /// Output tensors in the order of the reference converter.
    pub tensors: Vec<OutTensor>,
    /// Source tensors that are not used, each with the reason.
    pub dropped: Vec<Dropped>,
    /// Things a person should know, each one line.
    pub notes: Vec<String>,
    /// Keys of the config that the architecture does not ask for.
    pub unasked: Vec<UnaskedKey>,
    /// Whether float files have the types of the checkpoint, of FP8 Q8_0, whatever type is asked for.
    pub source_types: bool,
    /// Whether only the layers that predict more than the next token are here.
    pub prediction_only: bool,
}

/// A source tensor that has no place in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its name in the checkpoint.
    pub name: String,
    /// Why it is not needed.
    pub reason: &'static str,
}

/// A key of a config that the architecture does not ask for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UnaskedKey {
    /// The key, with `rope_parameters.` before those of rotary parameters.
    pub key: String,
    /// Its value.
    pub value: Json,
    /// Whether its name and value speak of what a model computes.
    pub is_mathematics: bool,
}

/// One tensor of the output.
#[derive(Debug, Clone, PartialEq)]
pub struct OutTensor {
    /// Its GGUF name.
    pub name: String,
    /// Its shape, row length first.
    pub shape: Shape,
    /// Where its rows come from.
    pub data: Data,
    /// The type that the reference converter gives it in files of floats.
    pub float: FloatType,
    /// The type of the blocks that the file has of it whatever its type, where the checkpoint holds blocks
    /// that the reference converter leaves as they are.
    pub kept: Option<DType>,
}

/// Of which type a tensor is in files of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatType {
    /// The type of the file.
    OfFile,
    /// F32 in every file.
    F32,
    /// F16 in every file.
    F16,
    /// F16 in files of F16, F32 in all others.
    F16OrF32,
}

impl FloatType {
    /// The type in a file of `file`.
    pub fn dtype(self, file: DType) -> DType {
        match self {
            FloatType::OfFile => file,
            FloatType::F32 => DType::F32,
            FloatType::F16 => DType::F16,
            FloatType::F16OrF32 if file == DType::F16 => DType::F16,
            FloatType::F16OrF32 => DType::F32,
        }
    }
}

/// How the elements of a tensor fall into the rows that a [`RowMap`] speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowView {
    /// Number of rows.
    pub n_rows: u64,
    /// Elements in a row.
    pub row_elems: u64,
}

impl OutTensor {
    /// The rows that this tensor's [`RowMap`] speaks of. A matrix has the rows of its shape. A
    /// vector whose rows move (the bias of Q or K) is a column of rows of one element each;
    /// any other vector is one row.
    pub fn row_view(&self) -> RowView {
        let moves = matches!(&self.data, Data::Rows { rows, .. } if *rows != RowMap::Concat);
        // These say themselves how long a row is; the shape may be another.
        if let Data::Rows { rows: RowMap::TileColumns { groups, per_group, elems }, .. } = &self.data {
            let row_elems = groups.saturating_mul(*per_group).saturating_mul(*elems).max(1);
            return RowView { n_rows: self.shape.n_elems() / row_elems, row_elems };
        }
        let by_element =
            matches!(&self.data, Data::Rows { rows: RowMap::Elements { .. } | RowMap::FirstHead { .. }, .. });
        if by_element || self.shape.n_dims() <= 1 && moves {
            RowView { n_rows: self.shape.n_elems(), row_elems: 1 }
        } else {
            RowView { n_rows: self.shape.n_rows(), row_elems: self.shape.row_elems() }
        }
    }

    /// Whether blocks of `dtype` in the checkpoint can become this tensor's as they are: no element changes, and what
    /// moves, whole rows or pieces of them, is whole blocks.
    pub fn moves_blocks(&self, dtype: DType) -> bool {
        let Data::Rows { rows, element: ElementMap::Identity, .. } = &self.data else { return false };
        let row_elems = self.row_view().row_elems;
        // Of rows of zeros there are no blocks.
        let has_all = !matches!(rows, RowMap::Pad { .. });
        has_all
            && row_elems == self.shape.row_elems()
            && row_elems.is_multiple_of(rows.pieces().saturating_mul(dtype.block_elems()))
    }
}

/// Where the values of an output tensor come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Rows of source tensors.
    Rows {
        /// Source tensors by name; [`RowMap`] says which row of which one.
        sources: Vec<String>,
        /// Output row to source row.
        rows: RowMap,
        /// What happens to each element.
        element: ElementMap,
    },
    /// Columns of the only source, whose matrices are stored transposed in the checkpoint: column `c` of a
    /// matrix (r, c) becomes a row of r elements. Unlike a row, a column is spread over its whole
    /// matrix, so these are read in panels of neighbouring columns.
    Columns {
        /// The source tensor.
        source: String,
        /// Which rows of the source are a matrix.
        matrix: Matrix,
        /// Output row to row of the transposed source, which has the columns of its first matrix,
        /// then those of its second, ....
        rows: RowMap,
        /// What happens to each element.
        element: ElementMap,
    },
    /// Values that the architecture computes from the config (`rope_freqs.weight`).
    Computed(Vec<f32>),
    /// The product of two vectors, element by element, in f32.
    Product {
        /// Both.
        sources: Vec<String>,
    },
    /// Integers, which are no weights: ids of tokens or experts. [`OutTensor::kept`] is their type.
    Integers {
        /// The source tensor.
        source: String,
        /// The integers.
        values: Vec<i64>,
    },
}

/// Rows of a tensor that are a matrix to be transposed: of every `group` rows some neighbours, as
/// many as a row of the output has elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    /// Source rows of a group.
    pub group: u64,
    /// The first row within its group that belongs to the matrix.
    pub start: u64,
}

/// Output row -> (source, source row). Rows run over all outer dimensions; the rows of a vector
/// are its elements ([`OutTensor::row_view`] says how to count them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowMap {
    /// The rows of the sources one after the other; with one source, itself.
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
        /// Which rows, in the order of the output.
        rows: [u64; 2],
        /// Rows of the source.
        of: u64,
    },
    /// The rows of the only source, and rows of zeros behind them.
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
        /// How many of these, an even number, are rotated; the others stay.
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
    /// Groups come apart: the first part of all groups, then the second part of all, then the third;
    /// what is in no part is left out.
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
    /// Within each of the first heads, pairs of neighbouring rows that belong to height and to width in turns are put into
    /// halves. Rows behind these heads stay.
    ///
    /// Source: `KimiK25Model.permute` in `conversion/kimivl.py`.
    PairHalves {
        /// Number of heads.
        n_heads: u64,
        /// Rows of a head, a multiple of 4.
        rows: u64,
    },
    /// As [`RowMap::RopePermute`] of the first heads; the rows behind them stay (keys and queries of a fused matrix).
    PermuteHeads {
        /// Number of heads.
        heads: u64,
        /// Rows of a head.
        rows: u64,
    },
    /// Rows of zeros, then those of the only source (adapters, of which the first is none).
    AfterZeros {
        /// Rows of zeros.
        zeros: u64,
        /// Rows of a head in which rotary halves are then interleaved as by [`RowMap::RopePermute`]; 0 for none.
        head: u64,
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

/// Of a head in the tiled order its place in the grouped order: head v of group g is `v * groups + g` there and
/// `g * per_group + v` here.
fn grouped(head: u64, groups: u64, per_group: u64) -> u64 {
    head % groups * per_group + head / groups
}

impl RowMap {
    /// In how many pieces a row is cut that this map counts as rows: 1 but for [`RowMap::TileColumns`].
    pub fn pieces(&self) -> u64 {
        match *self {
            RowMap::TileColumns { groups, per_group, .. } => groups.saturating_mul(per_group).max(1),
            _ => 1,
        }
    }

    /// Source row for output row `row` of a tensor with `n_rows` rows ([`OutTensor::row_view`]),
    /// for maps of one source. [`RowMap::Concat`] gives the row itself; the caller finds the
    /// source by row counts, and so does [`RowMap::Pad`], of which the rows beyond the source are zeros. For [`RowMap::RopePermute`], `n_rows` must be a multiple of twice
    /// `n_head`, which `resolve` has checked.
    pub fn source_row(&self, row: u64, n_rows: u64) -> u64 {
        match *self {
            RowMap::Concat | RowMap::Pad { .. } => row,
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
            // Of Q and K the rows that were taken are then permuted by head, so the permutation is undone first.
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
            // Of the order [2, 0, 1]: chunks A B C of the source are C A B in the output.
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
        let of_groups = |taken: u64, group: u64| (n_rows / taken.max(1)).saturating_mul(group);
        match *self {
            RowMap::Slice { start } => start.saturating_add(n_rows),
            RowMap::Pad { rows, .. } => rows,
            RowMap::Pick { of, .. } => of,
            RowMap::AfterZeros { zeros, .. } => n_rows.saturating_sub(zeros),
            RowMap::Groups { group, rows, .. } => of_groups(rows, group),
            RowMap::Regroup { group, parts } => of_groups(parts.iter().map(|(_, rows)| rows).sum(), group),
            RowMap::Elements { step, .. } => n_rows.saturating_mul(step),
            RowMap::Concat
            | RowMap::RopePermute { .. }
            | RowMap::RopeHalves { .. }
            | RowMap::FirstHead { .. }
            | RowMap::Ungroup { .. }
            | RowMap::Chunks { .. }
            | RowMap::TileHeads { .. }
            | RowMap::PairHalves { .. }
            | RowMap::TileColumns { .. }
            | RowMap::PermuteHeads { .. } => n_rows,
        }
    }

    /// The inverse: the output row to which source row `row` went, for maps of one source whose
    /// output has `n_rows` rows. [`RowMap::source_row`] of it is `row` again.
    pub fn output_row(&self, row: u64, n_rows: u64) -> u64 {
        match *self {
            RowMap::Concat | RowMap::Pad { .. } => row,
            RowMap::Pick { rows: [first, _], .. } => u64::from(row != first),
            // Of other heads nothing is left, so that nobody asks.
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

/// What happens to each element on the way, in f32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ElementMap {
    /// Nothing.
    Identity,
    /// One is added (norms whose weights are stored as their distance from one).
    AddOne,
    /// The number is added (norms whose weights are stored as their distance from another number).
    Add(f32),
    /// Minus e to the power of the element (the decay of state-space models, stored as a
    /// logarithm), rounded to the nearest.
    ///
    /// The reference asks torch, whose result for f32 depends on the processor (its library has an
    /// `exp` for each set of instructions): about one element in a hundred is the other neighbour
    /// of the exact value.
    MinusExp,
    /// e to the power of the element, rounded as by [`ElementMap::MinusExp`].
    Exp,
    /// ln(1 + e^x), as torch has it: the element itself above 20.
    ///
    /// What is said of [`ElementMap::MinusExp`] holds for both of its steps.
    Softplus,
    /// It is multiplied by the first factor, the product by the second.
    Scale([f32; 2]),
    /// It is multiplied by the factor, the product by that of its band of output rows.
    ScaleBands {
        /// The factor for all rows.
        factor: f32,
        /// For each band the row after its last, and its factor; a row is in the first band that
        /// ends after it, or in the last one. Five, as of the input projection of Mamba 2 (gate, input, two
        /// for the groups of the state, steps), so that the enum stays `Copy`.
        bands: [(u64, f32); 5],
    },
}

impl ElementMap {
    /// The map of one element of output row `row`. `round` is applied after every operation: torch
    /// rounds to the stored type if that is f16, and works in f32 if it is bf16.
    pub fn apply(self, row: u64, value: f32, round: impl Fn(f32) -> f32) -> f32 {
        match self {
            ElementMap::Identity => value,
            ElementMap::AddOne => round(value + 1.0),
            ElementMap::Add(number) => round(value + number),
            // In double precision, so that the result is the correctly rounded f32.
            ElementMap::MinusExp => -round(f64::from(value).exp() as f32),
            ElementMap::Exp => round(f64::from(value).exp() as f32),
            ElementMap::Softplus if value > 20.0 => value,
            ElementMap::Softplus => {
                let exponential = f64::from(value).exp() as f32;
                round(f64::from(exponential).ln_1p() as f32)
            }
            ElementMap::Scale([first, second]) => round(round(value * first) * second),
            ElementMap::ScaleBands { factor, bands } => {
                let band = bands.iter().find(|(end, _)| row < *end).unwrap_or(&bands[4]);
                round(round(value * factor) * band.1)
            }
        }
    }

    /// The inverse: an element of the source for the element `value` of output row `row`.
    ///
    /// - [`ElementMap::AddOne`] is undone exactly for every f16, and for every bf16 from 2^-16 on.
    /// - Otherwise rounding makes several floats lead to `value`. Of these, the one that a checkpoint most
    ///   likely had: the nearest bf16 if it maps to `value`, else the nearest f16, else the nearest float.
    /// - Whatever is returned maps to `value` again, as long as any float does.
    pub fn undo(self, row: u64, value: f32) -> f32 {
        let guess = match self {
            ElementMap::Identity => return value,
            ElementMap::AddOne => return value - 1.0,
            ElementMap::Add(number) => f64::from(value) - f64::from(number),
            ElementMap::MinusExp => (-f64::from(value)).ln(),
            ElementMap::Exp => f64::from(value).ln(),
            ElementMap::Softplus if value > 20.0 => return value,
            ElementMap::Softplus => f64::from(value).exp_m1().ln(),
            ElementMap::Scale([first, second]) => f64::from(value) / f64::from(first) / f64::from(second),
            ElementMap::ScaleBands { factor, bands } => {
                let band = bands.iter().find(|(end, _)| row < *end).unwrap_or(&bands[4]);
                f64::from(value) / f64::from(factor) / f64::from(band.1)
            }
        } as f32;
        let maps_to_value = |bits: u32| self.apply(row, f32::from_bits(bits), |value| value) == value;
        let bits = guess.to_bits();
        // Rounds to the nearest float whose last `zeros` bits are 0. A carry out of the mantissa runs into the
        // exponent, which is the next power of two, as it should be.
        let rounded = |zeros: u32| {
            let half = (1u32 << zeros) >> 1;
            bits.saturating_add(half) >> zeros << zeros
        };
        // bf16 has 16 bits fewer than f32, f16 (of ordinary size) 13 bits fewer in the mantissa.
        let shortest = [16, 13, 0].map(rounded).into_iter().find(|bits| maps_to_value(*bits));
        // Two roundings of the way forward can leave the guess one or two floats beside those that map to `value`.
        let neighbours = || (1..=4).flat_map(|by| [bits.wrapping_add(by), bits.wrapping_sub(by)]);
        f32::from_bits(shortest.or_else(|| neighbours().find(|bits| maps_to_value(*bits))).unwrap_or(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_maps_invert() {
        let bands = [(2, 0.37), (2, 7.0), (4, 2.0), (5, 3.0), (6, 4.0)];
        let maps = [
            ElementMap::Identity,
            ElementMap::AddOne,
            ElementMap::MinusExp,
            ElementMap::Exp,
            ElementMap::Add(0.2),
            ElementMap::Scale([0.390_625, 1.1]),
            ElementMap::Scale([0.235_702_26, 1.0]),
            ElementMap::ScaleBands { factor: 1.1, bands },
        ];
        // Every bf16 between 2^-10 and 2^4, of both signs, comes back as it was.
        for bits in (0x3a80u32..0x4180).flat_map(|bits| [bits << 16, (bits | 0x8000) << 16]).chain([0]) {
            let value = f32::from_bits(bits);
            for (row, map) in maps.iter().enumerate() {
                let there = map.apply(row as u64, value, |value| value);
                let back = map.undo(row as u64, there);
                assert_eq!(back.to_bits(), bits, "{map:?} of {value} is {there}, back {back}");
            }
        }
        // Any other float comes back as one that leads to the same.
        for step in 0..10_000u32 {
            let value = f32::from_bits(0x3d00_0001 + step * 4099);
            for map in &maps[2..6] {
                let there = map.apply(0, value, |value| value);
                assert_eq!(map.apply(0, map.undo(0, there), |value| value), there, "{map:?} of {value}");
            }
        }
        assert!(ElementMap::MinusExp.undo(0, f32::NAN).is_nan());
    }

    /// The rows of q, k and v of `n_groups` groups, named by group, part and place.
    fn grouped(n_groups: u64, queries: u64, keys: u64) -> Vec<(u64, char, u64)> {
        let group = |g| {
            let part = move |name, rows| (0..rows).map(move |row| (g, name, row));
            part('q', queries).chain(part('k', keys)).chain(part('v', keys))
        };
        (0..n_groups).flat_map(group).collect()
    }

    #[test]
    fn ungroup_gathers_queries_keys_and_values() {
        for (n_groups, queries, keys) in [(1, 6, 2), (4, 3, 3), (2, 8, 4), (3, 1, 1)] {
            let source = grouped(n_groups, queries, keys);
            let mut expected = source.clone();
            expected.sort_by_key(|(_, part, _)| "qkv".find(*part));
            let map = RowMap::Ungroup { queries, keys };
            let n_rows = source.len() as u64;
            let rows = (0..n_rows).map(|row| source[map.source_row(row, n_rows) as usize]);
            assert_eq!(rows.collect::<Vec<_>>(), expected);
            assert!((0..n_rows).all(|row| map.output_row(map.source_row(row, n_rows), n_rows) == row));
        }
    }

    #[test]
    fn regroup_gathers_parts_and_leaves_out_the_rest() {
        // Two groups of q q k v v v z.
        let map = RowMap::Regroup { group: 7, parts: [(0, 2), (2, 1), (3, 3)] };
        let rows: Vec<u64> = (0..12).map(|row| map.source_row(row, 12)).collect();
        assert_eq!(rows, [0, 1, 7, 8, 2, 9, 3, 4, 5, 10, 11, 12]);
        assert!((0..12).all(|row| map.output_row(rows[row as usize], 12) == row));
    }

    #[test]
    fn elements_are_taken_by_step() {
        let map = RowMap::Elements { step: 2, start: 1 };
        let rows: Vec<u64> = (0..4).map(|row| map.source_row(row, 4)).collect();
        assert_eq!(rows, [1, 3, 5, 7]);
        assert!((0..4).all(|row| map.output_row(rows[row as usize], 4) == row));
    }

    #[test]
    fn neighbours_become_halves() {
        // Two heads of x y x y x y z, of which z is not rotated.
        let map = RowMap::RopeHalves { head: 7, rotated: 6 };
        let rows: Vec<u64> = (0..14).map(|row| map.source_row(row, 14)).collect();
        assert_eq!(rows, [0, 2, 4, 1, 3, 5, 6, 7, 9, 11, 8, 10, 12, 13]);
        assert!((0..14).all(|row| map.output_row(rows[row as usize], 14) == row));
        // Of whole heads it undoes the other permutation.
        let (halves, neighbours) =
            (RowMap::RopeHalves { head: 6, rotated: 6 }, RowMap::RopePermute { n_head: 3 });
        assert!((0..18).all(|row| halves.source_row(neighbours.source_row(row, 18), 18) == row));
    }

    #[test]
    fn chunks_change_places() {
        let map = RowMap::Chunks { order: &[3, 1, 2, 0, 4] };
        let rows: Vec<u64> = (0..10).map(|row| map.source_row(row, 10)).collect();
        assert_eq!(rows, [6, 7, 2, 3, 4, 5, 0, 1, 8, 9]);
        assert!((0..10).all(|row| map.output_row(rows[row as usize], 10) == row));
    }

    #[test]
    fn heads_are_permuted_and_the_rest_stays() {
        // Two heads of halves x x y y, then two rows of values.
        let map = RowMap::PermuteHeads { heads: 2, rows: 4 };
        let rows: Vec<u64> = (0..10).map(|row| map.source_row(row, 10)).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7, 8, 9]);
        assert!((0..10).all(|row| map.output_row(rows[row as usize], 10) == row));
    }

    #[test]
    fn zeros_come_before_the_rows_of_the_source() {
        let map = RowMap::AfterZeros { zeros: 2, head: 4 };
        let rows: Vec<u64> = (0..6).map(|row| map.source_row(row, 6)).collect();
        assert_eq!(rows, [u64::MAX, u64::MAX, 0, 2, 1, 3]);
        assert!((2..6).all(|row| map.output_row(rows[row as usize], 6) == row));
        assert_eq!(map.n_source_rows(6), 4);
    }

    #[test]
    fn elements_are_rounded_after_every_operation() {
        let tenths = |value: f32| (value * 10.0).round() / 10.0;
        assert_eq!(ElementMap::Scale([0.25, 0.5]).apply(0, 0.5, tenths), 0.1);
        assert_eq!(ElementMap::AddOne.apply(0, 0.24, tenths), 1.2);
        assert_eq!(ElementMap::MinusExp.apply(0, 1.0, tenths), -2.7);
        assert_eq!(ElementMap::MinusExp.apply(0, 0.0, |value| value), -1.0);
        let bands = [(2, 1.0), (2, 7.0), (4, 2.0), (5, 3.0), (6, 4.0)];
        let scaled = (0..7).map(|row| ElementMap::ScaleBands { factor: 0.5, bands }.apply(row, 2.0, |v| v));
        assert_eq!(scaled.collect::<Vec<_>>(), [1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0]);
    }

    #[test]
    fn blocks_move_where_pieces_are_whole_blocks() {
        let of = |rows, element| OutTensor {
            name: "blk.0.ssm_out.weight".into(),
            shape: Shape::new(&[1024, 4]).expect("four rows"),
            data: Data::Rows { sources: vec!["a".into()], rows, element },
            float: FloatType::OfFile,
            kept: None,
        };
        let whole = of(RowMap::RopePermute { n_head: 2 }, ElementMap::Identity);
        assert!(whole.moves_blocks(DType::Q4_K) && whole.moves_blocks(DType::Q4_0));
        // Eight pieces of 128 elements a row.
        let pieces = of(RowMap::TileColumns { groups: 4, per_group: 2, elems: 128 }, ElementMap::Identity);
        assert!(pieces.moves_blocks(DType::Q4_0) && !pieces.moves_blocks(DType::Q4_K));
        // Pieces of 16 elements.
        let small = of(RowMap::TileColumns { groups: 32, per_group: 2, elems: 16 }, ElementMap::Identity);
        assert!(!small.moves_blocks(DType::Q4_0) && small.moves_blocks(DType::F16));
        assert!(!of(RowMap::Concat, ElementMap::AddOne).moves_blocks(DType::Q4_0));
    }
}
