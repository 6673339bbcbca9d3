//! Blocks with fixed scales, for searches over levels.
//!
//! A column of a block then has a small set of values, `scale * point(level) + offset` in single precision,
//! where scale and offset belong to a group of neighboring columns and the points are the same in all blocks
//! of a type. A search reads levels, chooses others and packs them; no bit of a scale changes. A search over
//! scales also reads their codes, and the half-precision numbers that multiply the codes. [`FROZEN`] is the
//! table; each type's row is in `frozen.rs` of its folder, or with the code that it shares with other types.

use gguf_types::DType;

use crate::{
    Level,
    block::{array_at, array_at_mut, assert_sizes, put_u16, u16_at},
    round::f16_to_f32,
    valid::half_scales,
};

/// Offset of a type without offsets: adding it changes no bit of any number, including both zeros.
pub const NO_OFFSET: f32 = -0.0;

/// Values of levels before scale and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// Level `l` represents the integer `l - zero`; a search may choose any of `lowest..=highest`.
    Steps {
        /// Level of the integer 0.
        zero: u8,
        /// Lowest level that an encoder produces.
        lowest: u8,
        /// Highest level.
        highest: u8,
    },
    /// Level `l` represents entry `l`; entries increase.
    Table(&'static [i8; 16]),
}

impl Points {
    /// Value of a level; an integer, which is exact.
    ///
    /// # Panics
    /// If a table has no such level.
    #[inline(always)]
    pub fn point(self, level: u8) -> f32 {
        match self {
            // Levels of one byte minus at most 128: the difference fits 16 bits, and f32 represents it
            // exactly.
            Points::Steps { zero, .. } => f32::from(i16::from(level) - i16::from(zero)),
            Points::Table(table) => f32::from(table[usize::from(level)]),
        }
    }

    /// Level of a point returned by [`point`](Self::point).
    #[inline(always)]
    pub fn level(self, point: f32) -> u8 {
        match self {
            Points::Steps { zero, .. } => (point as i16 + i16::from(zero)) as u8,
            // Entries increase, so the index is the number of smaller entries.
            Points::Table(table) => table.iter().filter(|entry| f32::from(**entry) < point).count() as u8,
        }
    }
}

/// Codes of scales or offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codes {
    /// No codes.
    None,
    /// Integers of `lowest..=highest`, of which `zero` represents 0.
    Integers {
        /// Lowest code.
        lowest: u16,
        /// Highest code.
        highest: u16,
        /// Code of 0.
        zero: u16,
    },
    /// Bits of half-precision numbers.
    Halves,
}

/// A block of `E` elements and `B` bytes with fixed scales.
pub trait Frozen<const E: usize, const B: usize> {
    /// The type.
    const DTYPE: DType;
    /// Neighboring columns that share a scale; a divisor of `E`.
    const GROUP: usize;
    /// Values of levels.
    const POINTS: Points;

    /// Codes of a group's scale and of its offset. By default a block begins with a single scale in half
    /// precision, followed by the offset, if any.
    const CODES: [Codes; 2] = [Codes::Halves, Codes::None];

    /// Codes of a group's scale and of its offset; 0 if there is no offset.
    #[inline(always)]
    fn codes(block: &[u8; B], _group: usize) -> [u16; 2] {
        [u16_at(block, 0), if Self::CODES[1] == Codes::None { 0 } else { u16_at(block, 2) }]
    }

    /// Scale and offset of codes in this block, in the decoder's arithmetic.
    #[inline(always)]
    fn scale(_block: &[u8; B], [scale, offset]: [u16; 2]) -> [f32; 2] {
        let offset = if Self::CODES[1] == Codes::None { NO_OFFSET } else { f16_to_f32(offset) };
        [f16_to_f32(scale), offset]
    }

    /// Writes the codes of a group; other bits stay unchanged.
    #[inline(always)]
    fn put_codes([scale, offset]: [u16; 2], block: &mut [u8; B], _group: usize) {
        put_u16(block, 0, scale);
        if Self::CODES[1] != Codes::None {
            put_u16(block, 2, offset);
        }
    }

    /// The levels of a block.
    fn levels(block: &[u8; B]) -> [u8; E];

    /// Packs levels; other bits stay unchanged.
    fn put_levels(levels: &[u8; E], block: &mut [u8; B]);
}

/// A row of [`FROZEN`]. All functions take complete blocks; data beyond the shorter slice is ignored.
#[derive(Debug, Clone, Copy)]
pub struct FrozenCodec {
    /// The type.
    pub dtype: DType,
    /// Neighboring columns that share a scale.
    pub group: usize,
    /// Values of levels.
    pub points: Points,
    /// Codes of a group's scale and of its offset.
    pub codes: [Codes; 2],
    /// Byte positions of the half-precision numbers in a block: the common factor of all scales and, if there
    /// are offsets, theirs.
    pub halves: &'static [usize],
    /// `(block, group)`: the codes of a group of this block.
    pub codes_of: fn(&[u8], usize) -> [u16; 2],
    /// `(block, codes)`: the codes of all groups of this block.
    pub block_codes: fn(&[u8], &mut [[u16; 2]]),
    /// `(block, codes)`: scale and offset of codes in this block.
    pub scale_of: fn(&[u8], [u16; 2]) -> [f32; 2],
    /// `(codes, block, group)`: writes the codes of a group of this block.
    pub put_codes: fn([u16; 2], &mut [u8], usize),
    /// `(blocks, scales, offsets)`: one scale and one offset for each group of columns.
    pub scales: fn(&[u8], &mut [f32], &mut [f32]),
    /// `(blocks, levels)`: one level for each element.
    pub levels: fn(&[u8], &mut [u8]),
    /// `(levels, blocks)`: packs levels into blocks; other bits stay unchanged.
    pub put_levels: fn(&[u8], &mut [u8]),
}

const fn row<T: Frozen<E, B>, const E: usize, const B: usize>() -> FrozenCodec {
    // Both are known at compile time, so a wrong row does not compile.
    assert!(E.is_multiple_of(T::GROUP), "groups fill a block");
    assert_sizes(T::DTYPE, E, B);
    FrozenCodec {
        dtype: T::DTYPE,
        group: T::GROUP,
        points: T::POINTS,
        codes: T::CODES,
        halves: half_scales(T::DTYPE),
        codes_of: |block, group| T::codes(array_at(block, 0), group),
        block_codes: |block, codes| {
            let block = array_at(block, 0);
            codes.iter_mut().enumerate().for_each(|(group, codes)| *codes = T::codes(block, group));
        },
        scale_of: |block, codes| T::scale(array_at(block, 0), codes),
        put_codes: |codes, block, group| T::put_codes(codes, array_at_mut(block, 0), group),
        scales: |blocks, scales, offsets| {
            let groups = E / T::GROUP;
            let scales = scales.chunks_exact_mut(groups).zip(offsets.chunks_exact_mut(groups));
            for (block, (scales, offsets)) in blocks.as_chunks().0.iter().zip(scales) {
                for (group, (scale, offset)) in scales.iter_mut().zip(offsets).enumerate() {
                    [*scale, *offset] = T::scale(block, T::codes(block, group));
                }
            }
        },
        levels: |blocks, levels| {
            // Only integer operations, so levels do not change the result: the vectors are for speed.
            Level::detect().vectorize(
                #[inline(always)]
                || {
                    for (block, levels) in blocks.as_chunks().0.iter().zip(levels.as_chunks_mut().0) {
                        *levels = T::levels(block);
                    }
                },
            );
        },
        put_levels: |levels, blocks| {
            for (levels, block) in levels.as_chunks().0.iter().zip(blocks.as_chunks_mut().0) {
                T::put_levels(levels, block);
            }
        },
    }
}

/// All types whose columns can be rounded individually.
pub const FROZEN: &[FrozenCodec] = &[
    row::<crate::q4_0::Block, _, _>(),
    row::<crate::q4_1::Block, _, _>(),
    row::<crate::q5_0::Block, _, _>(),
    row::<crate::q5_1::Block, _, _>(),
    row::<crate::q8_0::Block, _, _>(),
    row::<crate::q2_k::Block, _, _>(),
    row::<crate::q3_k::Block, _, _>(),
    row::<crate::q4_k::Block, _, _>(),
    row::<crate::q5_k::Block, _, _>(),
    row::<crate::q6_k::Block, _, _>(),
    row::<crate::iq4_nl::Block, _, _>(),
    row::<crate::iq4_xs::Block, _, _>(),
];

/// The row of this type, if its columns can be rounded individually.
pub fn frozen(dtype: DType) -> Option<&'static FrozenCodec> {
    FROZEN.iter().find(|row| row.dtype == dtype)
}
