//! Blocks whose scales stand still: what a search over levels alone sees of a type.
//!
//! A column of a block then has a small set of values, `scale * point(level) + offset` in single precision, where scale and offset are
//! those of a group of neighbouring columns and the points are the same in all blocks of a type. Whoever searches reads levels,
//! chooses others and packs them; not one bit of a scale moves. [`FROZEN`] is the table; each type's row is `frozen.rs` in its folder.

use tensor::DType;

/// What offsets are where a type has none: added to any number it gives the same bits, those of both zeros too.
pub const NO_OFFSET: f32 = -0.0;

/// What levels stand for before scale and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// Level `l` stands for the integer `l - zero`; a search may give any of `lowest..=highest`.
    Steps {
        /// The level of the integer 0.
        zero: u8,
        /// The lowest level that an encoder gives.
        lowest: u8,
        /// The highest level.
        highest: u8,
    },
    /// Level `l` stands for entry `l`; entries increase.
    Table(&'static [i8; 16]),
}

impl Points {
    /// What a level stands for; whole numbers, which are exact.
    ///
    /// # Panics
    /// When a table has no such level.
    #[inline(always)]
    pub fn point(self, level: u8) -> f32 {
        match self {
            Points::Steps { zero, .. } => f32::from(i16::from(level) - i16::from(zero)),
            Points::Table(table) => f32::from(table[usize::from(level)]),
        }
    }

    /// The level of a point that [`point`](Self::point) gave.
    #[inline(always)]
    pub fn level(self, point: f32) -> u8 {
        match self {
            Points::Steps { zero, .. } => (point as i16 + i16::from(zero)) as u8,
            // Entries increase, so as many lie below it as its index says.
            Points::Table(table) => table.iter().filter(|entry| f32::from(**entry) < point).count() as u8,
        }
    }
}

/// A block of `E` elements and `B` bytes with its scales frozen.
pub trait Frozen<const E: usize, const B: usize> {
    /// The type.
    const DTYPE: DType;
    /// Neighbouring columns that share a scale; a divisor of `E`.
    const GROUP: usize;
    /// What levels stand for.
    const POINTS: Points;

    /// Scale and offset of each group, as the decoder computes them: `E / GROUP` of each.
    fn scales(block: &[u8; B], scales: &mut [f32], offsets: &mut [f32]);

    /// The levels of a block.
    fn levels(block: &[u8; B]) -> [u8; E];

    /// Packs levels and leaves all other bits as they are.
    fn put_levels(levels: &[u8; E], block: &mut [u8; B]);
}

/// A row of [`FROZEN`]. All functions take whole blocks; what is beyond the shorter of their slices is left alone.
#[derive(Debug, Clone, Copy)]
pub struct FrozenCodec {
    /// The type.
    pub dtype: DType,
    /// Neighbouring columns that share a scale.
    pub group: usize,
    /// What levels stand for.
    pub points: Points,
    /// `(blocks, scales, offsets)`: one scale and one offset for each group of columns.
    pub scales: fn(&[u8], &mut [f32], &mut [f32]),
    /// `(blocks, levels)`: one level for each element.
    pub levels: fn(&[u8], &mut [u8]),
    /// `(levels, blocks)`: packs levels into blocks whose other bits stay.
    pub put_levels: fn(&[u8], &mut [u8]),
}

/// The row of a type.
const fn row<T: Frozen<E, B>, const E: usize, const B: usize>() -> FrozenCodec {
    assert!(E.is_multiple_of(T::GROUP), "groups fill a block");
    crate::block::assert_sizes(T::DTYPE, E, B);
    FrozenCodec {
        dtype: T::DTYPE,
        group: T::GROUP,
        points: T::POINTS,
        scales: |blocks, scales, offsets| {
            let groups = E / T::GROUP;
            let scales = scales.chunks_exact_mut(groups).zip(offsets.chunks_exact_mut(groups));
            for (block, (scales, offsets)) in blocks.as_chunks().0.iter().zip(scales) {
                T::scales(block, scales, offsets);
            }
        },
        levels: |blocks, levels| {
            for (block, levels) in blocks.as_chunks().0.iter().zip(levels.as_chunks_mut().0) {
                *levels = T::levels(block);
            }
        },
        put_levels: |levels, blocks| {
            for (levels, block) in levels.as_chunks().0.iter().zip(blocks.as_chunks_mut().0) {
                T::put_levels(levels, block);
            }
        },
    }
}

/// Every type whose columns can be rounded one by one.
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

/// The row of this type, if its columns can be rounded one by one.
pub fn frozen(dtype: DType) -> Option<&'static FrozenCodec> {
    FROZEN.iter().find(|row| row.dtype == dtype)
}
