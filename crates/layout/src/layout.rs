//! Result of resolving a checkpoint: metadata, and for each output tensor the source of its rows. A layout is
//! data and reads no weights.

use gguf_container::Metadata;
use gguf_types::{DType, Shape};
use serde_json::Value as Json;

use crate::combination::Combination;
use crate::departure::Departed;
pub use crate::row_map::RowMap;

/// A resolved model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layout {
    /// The name that `general.architecture` holds (`llama`).
    pub architecture: &'static str,
    /// Keys in the order of the reference converter. `general.file_type`, where that writes it, and
    /// `general.quantization_version` are 0: the recipe sets them.
    pub metadata: Metadata,
    /// The file type that the reference gives to float files of this checkpoint, id and name, where
    /// it is not theirs: that of weights which are quantized already and stay so.
    pub packed_file_type: Option<(u32, &'static str)>,
    /// Output tensors in the order of the reference converter.
    pub tensors: Vec<OutTensor>,
    /// Source tensors that are not used, each with the reason.
    pub dropped: Vec<Dropped>,
    /// Reasons for llama.cpp to refuse the file or to compute other results than transformers, one per line.
    pub warnings: Vec<String>,
    /// Things a person should know, each one line.
    pub notes: Vec<String>,
    /// Confirmed facts, one per line.
    pub details: Vec<String>,
    /// The name of the pre-tokenizer by the tokenizer's own expressions, if the reference's hash selects another one that splits
    /// text differently.
    pub other_pre: Option<String>,
    /// Keys of the config that the architecture does not ask for.
    pub unread_keys: Vec<UnreadKey>,
    /// Differences from the reference's converter.
    pub departed: Vec<Departed>,
    /// True if float files have the types of the checkpoint (Q8_0 for FP8), whatever type is requested.
    pub source_types: bool,
    /// True if the file has only MTP layers.
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
pub struct UnreadKey {
    /// The key, with `rope_parameters.` before those of rotary parameters.
    pub key: String,
    /// Its value.
    pub value: Json,
    /// True if its name and value affect the computation.
    pub is_mathematics: bool,
}

/// One tensor of the output.
#[derive(Debug, Clone, PartialEq)]
pub struct OutTensor {
    /// Its GGUF name.
    pub name: String,
    /// Its shape, row length first.
    pub shape: Shape,
    /// Source of its rows.
    pub data: Data,
    /// The type that the reference converter gives it in files of floats.
    pub float: FloatType,
    /// The type of the blocks that the file has whatever its type, if the checkpoint contains blocks
    /// that the reference converter leaves as they are.
    pub stored_dtype: Option<DType>,
}

/// Type of a tensor in float files.
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

/// Division of a tensor's elements into the rows of a [`RowMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowView {
    /// Number of rows.
    pub n_rows: u64,
    /// Elements in a row.
    pub row_elems: u64,
}

impl OutTensor {
    /// The rows that this tensor's [`RowMap`] speaks of. A matrix has the rows of its shape. A
    /// vector whose rows move (the bias of Q or K) or that has several sources is a column of rows
    /// of one element each; any other vector is one row.
    pub fn row_view(&self) -> RowView {
        let moves = matches!(
            &self.data,
            Data::Rows { rows, sources, .. } if *rows != RowMap::Concat || sources.len() > 1
        );
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

    /// True if blocks of `dtype` in the checkpoint can become this tensor's blocks unchanged: no element
    /// changes, and rows or pieces of rows that move are complete blocks.
    pub fn moves_blocks(&self, dtype: DType) -> bool {
        let Data::Rows { rows, element: ElementMap::Identity, .. } = &self.data else { return false };
        let row_elems = self.row_view().row_elems;
        // Rows of zeros have no blocks.
        let has_all =
            !matches!(rows, RowMap::Pad { .. } | RowMap::PadEach { .. } | RowMap::AfterZeros { .. });
        has_all
            && row_elems == self.shape.row_elems()
            && row_elems.is_multiple_of(rows.pieces().saturating_mul(dtype.block_elems()))
    }
}

/// Source of an output tensor's values.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Rows of source tensors.
    Rows {
        /// Source tensors by name; [`RowMap`] says which row of which one.
        sources: Vec<String>,
        /// Output row to source row.
        rows: RowMap,
        /// Function of each element.
        element: ElementMap,
    },
    /// Columns of the only source, whose matrices are stored transposed in the checkpoint: column `c` of a
    /// matrix (r, c) becomes a row of r elements. Unlike a row, a column is spread over its complete
    /// matrix, so these are read in panels of neighbouring columns.
    Columns {
        /// The source tensor.
        source: String,
        /// Rows of the source that form a matrix.
        matrix: Matrix,
        /// Output row to row of the transposed source, which has the columns of its first matrix,
        /// then those of its second, ....
        rows: RowMap,
        /// Function of each element.
        element: ElementMap,
    },
    /// Values that the architecture computes from the config (`rope_freqs.weight`).
    Computed(Vec<f32>),
    /// Several tensors of equal size, or pieces of one, combined element by element in f32.
    Combined {
        /// The tensors, in the order of the operands of `by`.
        sources: Vec<String>,
        /// Rows of the source for each operand. With one source and several maps, all operands are its pieces.
        rows: Vec<RowMap>,
        /// Function of one element of each operand.
        by: Combination,
    },
    /// The rows of matrices, concatenated, then one row that is the product of a matrix and a vector, everything rounded
    /// to F16 if the checkpoint has the first in this type.
    Extended {
        /// The tensors whose rows are taken, then the matrix (row length, n) and the vector (n).
        sources: Vec<String>,
    },
    /// Matrices next to each other: each row is the concatenation of the rows of all sources.
    SideBySide {
        /// The tensors, from left to right.
        sources: Vec<String>,
    },
    /// A matrix of zeros in which some rows are those of the only source.
    Scattered {
        /// The source tensor.
        source: String,
        /// For each of its rows the row of the output; all are different.
        rows: Vec<u64>,
    },
    /// Integers that are not weights: ids of tokens or experts. [`OutTensor::stored_dtype`] is their type.
    Integers {
        /// The source tensor.
        source: String,
        /// The integers.
        values: Vec<i64>,
    },
}

impl Data {
    /// The tensors of the checkpoint that it is made of, by name.
    pub fn sources(&self) -> &[String] {
        match self {
            Data::Rows { sources, .. }
            | Data::Combined { sources, .. }
            | Data::Extended { sources }
            | Data::SideBySide { sources } => sources,
            Data::Columns { source, .. } | Data::Scattered { source, .. } | Data::Integers { source, .. } => {
                std::slice::from_ref(source)
            }
            Data::Computed(_) => &[],
        }
    }
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

/// Function of each element, in f32.
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
    /// `1 / (exp(x) + 1e-9)`.
    ///
    /// Source: `snake_fold` in `conversion/qwen3tts.py`.
    InverseExp,
    /// ln(1 + e^x), like torch: the element itself above 20.
    ///
    /// The notes on [`ElementMap::MinusExp`] apply to both of its steps.
    Softplus,
    /// It is multiplied by the first factor, the product by the second.
    Scale([f32; 2]),
    /// It is multiplied by the factor, the product by that of its band of output rows.
    ScaleBands {
        /// The factor for all rows.
        factor: f32,
        /// For each band the row after its last, and its factor; a row is in the first band that
        /// ends after it, or in the last one. Five, like the input projection of Mamba 2 (gate, input, two
        /// for the groups of the state, steps), so that the enum stays `Copy`.
        bands: [(u64, f32); 5],
    },
    /// Its sign changes in the second half of the rows of each head.
    NegateHalf {
        /// Rows of a head.
        head: u64,
    },
    /// The mean of the tensor is subtracted.
    ///
    /// The layout states NaN as the mean; the conversion replaces it once it has read the tensor
    /// ([`ElementMap::needs_mean`]).
    Centered {
        /// The mean.
        mean: f32,
        /// True if the tensor is stored as bf16, in which torch then computes.
        bf16: bool,
    },
    /// The nearest of -s, 0 and s, with s the mean magnitude of the tensor, at least 1e-5.
    ///
    /// As for [`ElementMap::Centered`], the layout states NaN. Torch adds in an order that depends on the processor, so
    /// that its mean may be one of the two floats next to the exact one.
    ///
    /// Source: `BitnetModel.weight_quant` in `conversion/bitnet.py`.
    Ternary {
        /// s.
        scale: f32,
    },
}

impl ElementMap {
    /// Centers a tensor.
    pub const CENTERED: ElementMap = ElementMap::Centered { mean: f32::NAN, bf16: false };
    /// Rounds a matrix to three values.
    pub const TERNARY: ElementMap = ElementMap::Ternary { scale: f32::NAN };

    /// True if the map depends on all elements of the tensor and has not been given their mean.
    pub fn needs_mean(self) -> bool {
        match self {
            ElementMap::Centered { mean: number, .. } | ElementMap::Ternary { scale: number } => {
                number.is_nan()
            }
            _ => false,
        }
    }

    /// This map with the mean of the tensor. `sum` has the sum of the elements ([`ElementMap::Centered`]) or of their
    /// magnitudes ([`ElementMap::Ternary`]).
    pub fn with_sum(self, sum: f64, n_elems: u64, stored_bf16: bool) -> ElementMap {
        let mean = |round: fn(f32) -> f32| round(round(sum as f32) / n_elems as f32);
        match self {
            ElementMap::Centered { .. } if stored_bf16 => {
                ElementMap::Centered { mean: mean(to_bf16), bf16: true }
            }
            ElementMap::Centered { .. } => ElementMap::Centered { mean: mean(|value| value), bf16: false },
            // `clamp` of torch keeps NaN, `max` would not.
            ElementMap::Ternary { .. } => {
                let scale = mean(|value| value);
                ElementMap::Ternary { scale: if scale < 1e-5 { 1e-5 } else { scale } }
            }
            other => other,
        }
    }

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
            ElementMap::InverseExp => round(1.0 / round(round(f64::from(value).exp() as f32) + 1e-9)),
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
            ElementMap::NegateHalf { head } if row % head.max(1) < head / 2 => value,
            ElementMap::NegateHalf { .. } => -value,
            ElementMap::Centered { mean, bf16: true } => to_bf16(value - mean),
            ElementMap::Centered { mean, bf16: false } => round(value - mean),
            ElementMap::Ternary { scale } => {
                // The reference divides twice, which need not give the scale again.
                let inverse = 1.0 / scale;
                round((value * inverse).round_ties_even().clamp(-1.0, 1.0) / inverse)
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
            ElementMap::InverseExp => (1.0 / f64::from(value) - 1e-9).ln(),
            ElementMap::Softplus if value > 20.0 => return value,
            ElementMap::Softplus => f64::from(value).exp_m1().ln(),
            ElementMap::Scale([first, second]) => f64::from(value) / f64::from(first) / f64::from(second),
            ElementMap::ScaleBands { factor, bands } => {
                let band = bands.iter().find(|(end, _)| row < *end).unwrap_or(&bands[4]);
                f64::from(value) / f64::from(factor) / f64::from(band.1)
            }
            ElementMap::NegateHalf { .. } => return self.apply(row, value, |value| value),
            ElementMap::Centered { mean, .. } => f64::from(value) + f64::from(mean),
            // Its values are their own images.
            ElementMap::Ternary { .. } => return value,
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
        // Two roundings on the way forward can leave the guess one or two floats away from those that map to
        // `value`.
        let neighbours = || (1..=4).flat_map(|by| [bits.wrapping_add(by), bits.wrapping_sub(by)]);
        f32::from_bits(shortest.or_else(|| neighbours().find(|bits| maps_to_value(*bits))).unwrap_or(bits))
    }
}

/// The nearest bf16 number; the one with an even last bit of two.
fn to_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    if value.is_nan() {
        return value;
    }
    f32::from_bits(bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
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
            ElementMap::NegateHalf { head: 6 },
            ElementMap::NegateHalf { head: 4 },
        ];
        // Every bf16 between 2^-10 and 2^4, of both signs, comes back as it was.
        for bits in (0x3a80u32..0x4180).flat_map(|bits| [bits << 16, (bits | 0x8000) << 16]).chain([0]) {
            let value = f32::from_bits(bits);
            for (row, map) in maps.iter().enumerate() {
                let mapped = map.apply(row as u64, value, |value| value);
                let back = map.undo(row as u64, mapped);
                assert_eq!(back.to_bits(), bits, "{map:?} of {value} is {mapped}, back {back}");
            }
        }
        // Any other float comes back as one that leads to the same.
        for step in 0..10_000u32 {
            let value = f32::from_bits(0x3d00_0001 + step * 4099);
            for map in &maps[2..6] {
                let mapped = map.apply(0, value, |value| value);
                assert_eq!(map.apply(0, map.undo(0, mapped), |value| value), mapped, "{map:?} of {value}");
            }
        }
        assert!(ElementMap::MinusExp.undo(0, f32::NAN).is_nan());
    }

    #[test]
    fn second_half_of_each_head_is_negated() {
        let map = ElementMap::NegateHalf { head: 4 };
        let values: Vec<f32> = (0..8).map(|row| map.apply(row, 1.5, |value| value)).collect();
        assert_eq!(values, [1.5, 1.5, -1.5, -1.5, 1.5, 1.5, -1.5, -1.5]);
        // An odd head has the greater half at its end, as with Python's division.
        assert_eq!(
            [0, 1, 2].map(|row| ElementMap::NegateHalf { head: 3 }.apply(row, 1.0, |value| value)),
            [1.0, -1.0, -1.0]
        );
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
    fn whole_blocks_are_moved() {
        let of = |rows, element| OutTensor {
            name: "blk.0.ssm_out.weight".into(),
            shape: Shape::new(&[1024, 4]).expect("four rows"),
            data: Data::Rows { sources: vec!["a".into()], rows, element },
            float: FloatType::OfFile,
            stored_dtype: None,
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
