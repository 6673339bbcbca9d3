//! Blocks whose columns are coded eight at a time with a codebook, with fixed scales.
//!
//! Eight neighboring columns have the values `scale * magnitude * sign`: magnitudes are one point of eight,
//! or two points of four, of the type's codebook. Signs are free, or have an even number of minuses if a
//! block stores only seven. A search reads points and signs, chooses others and packs them; scales stay.
//! [`CODEBOOK_CODECS`] is the table; each type's row is in `codebook_block.rs` of its folder.

use fearless_simd::Simd;
use fearless_simd_macros::simd;
use gguf_types::DType;

use crate::{
    block::{array_at, array_at_mut, assert_sizes},
    lanes::decode::{GROUP, join, signed_values},
};

/// Columns that are chosen together.
pub const COLUMNS: usize = 8;
/// Elements per block of all these types.
const ELEMS: usize = 256;

/// The points of a codebook.
#[derive(Debug, Clone, Copy)]
pub enum Codebook {
    /// One for eight columns.
    Eights(&'static [[u8; 8]]),
    /// Two for eight columns.
    Fours(&'static [[u8; 4]]),
}

/// Codes of eight columns in a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choice {
    /// Indices in the codebook; the second is 0 if a point has eight columns.
    pub points: [u16; 2],
    /// Bit `i` is set if column `i` is negative.
    pub signs: u8,
}

impl Codebook {
    /// Magnitudes of eight columns.
    ///
    /// # Panics
    /// If the codebook has no such point.
    #[inline(always)]
    pub fn magnitudes(self, points: [u16; 2]) -> [u8; COLUMNS] {
        match self {
            Codebook::Eights(all) => all[usize::from(points[0])],
            Codebook::Fours(all) => {
                // The first four columns are the low point.
                let [low, high] = points.map(|point| u64::from(u32::from_le_bytes(all[usize::from(point)])));
                (low | high << 32).to_le_bytes()
            }
        }
    }
}

/// A block of 256 elements and `B` bytes.
pub trait Eights<const B: usize> {
    /// The type.
    const DTYPE: DType;
    /// Neighboring columns that share a scale.
    const GROUP: usize;
    /// Its points.
    const CODEBOOK: Codebook;
    /// True if the number of minus signs is even.
    const EVEN: bool;

    /// Scale of a group, in the decoder's arithmetic.
    fn scale(block: &[u8; B], group: usize) -> f32;

    /// Eight columns.
    fn choice(block: &[u8; B], eight: usize) -> Choice;

    /// Writes eight columns; other bits stay unchanged.
    fn put_choice(choice: Choice, block: &mut [u8; B], eight: usize);
}

#[inline(always)]
pub(crate) fn decode<T: Eights<B>, const B: usize>(block: &[u8; B], values: &mut [f32; ELEMS]) {
    for (eight, values) in values.as_chunks_mut::<COLUMNS>().0.iter_mut().enumerate() {
        let scale = T::scale(block, eight * COLUMNS / T::GROUP);
        let choice = T::choice(block, eight);
        let magnitudes = T::CODEBOOK.magnitudes(choice.points);
        *values = std::array::from_fn(|i| {
            let sign = if choice.signs >> i & 1 == 1 { -1.0 } else { 1.0 };
            scale * f32::from(magnitudes[i]) * sign
        });
    }
}

/// [`decode`], an element a lane.
#[simd]
pub(crate) fn decode_lanes<S: Simd, T: Eights<B>, const B: usize>(
    simd: S,
    block: &[u8; B],
    values: &mut [f32; ELEMS],
) {
    // Pairs of pairs, because types pack four eights together: shifts are constant then.
    for (part, values) in values.as_chunks_mut::<{ 2 * GROUP }>().0.iter_mut().enumerate() {
        for (side, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let pair = 2 * part + side;
            let scale = T::scale(block, pair * GROUP / T::GROUP);
            let choices = [T::choice(block, 2 * pair), T::choice(block, 2 * pair + 1)];
            let magnitudes = join(choices.map(|choice| T::CODEBOOK.magnitudes(choice.points)));
            let signs = u16::from_le_bytes(choices.map(|choice| choice.signs));
            signed_values(simd, scale, &magnitudes, signs, values);
        }
    }
}

/// A row of [`CODEBOOK_CODECS`]. All functions take complete blocks.
#[derive(Debug, Clone, Copy)]
pub struct CodebookCodec {
    /// The type.
    pub dtype: DType,
    /// Neighboring columns that share a scale.
    pub group: usize,
    /// Its points.
    pub codebook: Codebook,
    /// True if the number of minus signs in eight columns is even.
    pub even: bool,
    /// `(blocks, scales)`: one for each group.
    pub scales: fn(&[u8], &mut [f32]),
    /// `(blocks, choices)`: one for eight columns.
    pub choices: fn(&[u8], &mut [Choice]),
    /// `(choices, blocks)`: packs them into blocks; other bits stay unchanged.
    pub put_choices: fn(&[Choice], &mut [u8]),
}

const fn row<T: Eights<B>, const B: usize>() -> CodebookCodec {
    assert_sizes(T::DTYPE, ELEMS, B);
    CodebookCodec {
        dtype: T::DTYPE,
        group: T::GROUP,
        codebook: T::CODEBOOK,
        even: T::EVEN,
        scales: |blocks, scales| {
            // Block by block; partial blocks at the end of either side are ignored.
            let scales = scales.chunks_exact_mut(ELEMS / T::GROUP);
            for (block, scales) in blocks.chunks_exact(B).zip(scales) {
                for (group, scale) in scales.iter_mut().enumerate() {
                    *scale = T::scale(array_at(block, 0), group);
                }
            }
        },
        choices: |blocks, choices| {
            for (block, choices) in blocks.chunks_exact(B).zip(choices.chunks_exact_mut(ELEMS / COLUMNS)) {
                for (eight, choice) in choices.iter_mut().enumerate() {
                    *choice = T::choice(array_at(block, 0), eight);
                }
            }
        },
        put_choices: |choices, blocks| {
            for (choices, block) in choices.chunks_exact(ELEMS / COLUMNS).zip(blocks.chunks_exact_mut(B)) {
                for (eight, choice) in choices.iter().enumerate() {
                    T::put_choice(*choice, array_at_mut(block, 0), eight);
                }
            }
        },
    }
}

/// Every type that codes eight columns with a codebook.
pub const CODEBOOK_CODECS: &[CodebookCodec] = &[
    row::<crate::iq2_xxs::Block, _>(),
    row::<crate::iq2_xs::Block, _>(),
    row::<crate::iq2_s::Block, _>(),
    row::<crate::iq3_xxs::Block, _>(),
    row::<crate::iq3_s::Block, _>(),
];

/// The codec of this type, if it codes eight columns with a codebook.
pub fn codebook_codec(dtype: DType) -> Option<&'static CodebookCodec> {
    CODEBOOK_CODECS.iter().find(|row| row.dtype == dtype)
}
