//! Common part of the lane kernels. **A vector lane is a block**: every lane repeats the scalar order of
//! operations on its own block, and branches become masks, so the bits stay equal while LEN blocks are
//! encoded at once.
//!
//! A kernel processes a *unit*: LEN blocks, transposed, so that `x[i]` contains element `i` of every block.
//! It returns the blocks as little-endian words, transposed likewise, and a mask of *wild* lanes: blocks for
//! which some step may not have been repeated exactly with vectors (rounding by the magic number out of its
//! range, a division that the scalar code would skip). All other lanes are *tame*. Wild blocks are encoded
//! again by the scalar code, so a kernel may be wrong about a wild lane but never silently. The sum of two
//! NaNs depends on the compiler, and a level's instructions may change it: so scalar code that adds is
//! `#[inline(never)]` if lanes fall back to it, and there is one result for all levels.
//!
//! All functions have `#[simd]` or `#[inline(always)]`: only then are they compiled with the instructions of
//! the calling level.

pub mod decode;
pub mod descent;
pub mod elements;
pub mod halves;
pub mod k_scales;
pub mod nonlinear;
pub mod scale_and_min;
pub mod signed;
pub mod thirty_two;
pub mod two_bits;
pub mod unsigned;

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use self::halves::{from_half, to_half};
use crate::{
    Rows,
    round::{MAGIC, MAGIC_MANTISSA, MANTISSA},
};

/// The widest vectors of any level, in lanes.
pub const MAX_LANES: usize = 16;

/// Encodes blocks of `E` elements and `B` bytes, LEN at a time. `kernel(first, x, importance, words)` is the
/// lane kernel of the blocks from `first` on and returns the bits of the wild lanes;
/// `scalar(values, importance, block)` encodes one block. Both get the importance weights of a block's
/// columns if the rows have any.
#[inline(always)]
pub fn encode_units<S: Simd, const E: usize, const B: usize, const W: usize>(
    simd: S,
    rows: Rows<'_>,
    out: &mut [u8],
    mut kernel: impl FnMut(usize, &[S::f32s; E], Option<&[S::f32s; E]>, &mut [S::u32s; W]) -> u64,
    scalar: impl Fn(&[f32; E], Option<&[f32; E]>, &mut [u8; B]),
) {
    const { assert!(W == B.div_ceil(4), "words cover the block") };
    let lanes = S::f32s::LEN;
    let values = rows.values.as_chunks::<E>().0;
    let weights = rows.weights.map(|weights| weights.as_chunks::<E>().0);
    let blocks = out.as_chunks_mut::<B>().0;
    // Inputs `x` and `importance` (E elements, LEN blocks), output `words` (W, LEN blocks).
    let mut x = [S::f32s::splat(simd, 0.0); E];
    let mut importance = x;
    let mut words = [S::u32s::splat(simd, 0); W];
    // The columns that are transposed already: rows whose length is a unit or a fraction of one share them.
    let mut at_hand = None;
    for (unit, blocks) in blocks.chunks_mut(lanes).enumerate() {
        let first = unit * lanes;
        let chosen = blocks_from(first, values.len());
        transpose(simd, values, chosen, &mut x);
        if let Some(weights) = weights {
            // `weights` is one row, which all rows share.
            let columns = chosen.map(|block| block % weights.len());
            if at_hand != Some(columns) {
                transpose(simd, weights, columns, &mut importance);
                at_hand = Some(columns);
            }
        }
        let wild = kernel(first, &x, weights.map(|_| &importance), &mut words);
        // Wild lanes are stored like all others and then overwritten by the scalar code.
        store_words::<S, B, W>(simd, &words, blocks);
        for (lane, block) in blocks.iter_mut().enumerate() {
            if wild >> lane & 1 == 1 {
                let index = first + lane;
                scalar(&values[index], weights.map(|weights| &weights[index % weights.len()]), block);
            }
        }
    }
}

/// The block of each lane of the unit that starts at `first`; lanes beyond the last block repeat it.
#[inline(always)]
fn blocks_from(first: usize, n_blocks: usize) -> [usize; MAX_LANES] {
    std::array::from_fn(|lane| (first + lane).min(n_blocks - 1))
}

/// Transposes the LEN blocks `chosen`: element `i` of all into `out[i]`, one block per lane.
///
/// Squares of LEN x LEN are transposed by zipping halves: after log2(LEN) perfect shuffles of the rows, the
/// columns have replaced the rows.
#[simd]
pub fn transpose<S: Simd, const E: usize>(
    simd: S,
    blocks: &[[f32; E]],
    chosen: [usize; MAX_LANES],
    out: &mut [S::f32s; E],
) {
    let lanes = S::f32s::LEN;
    for square in 0..E / lanes {
        let at = square * lanes;
        let mut rows = [S::f32s::splat(simd, 0.0); MAX_LANES];
        for lane in 0..lanes {
            rows[lane] = S::f32s::from_slice(simd, &blocks[chosen[lane]][at..at + lanes]);
        }
        out[at..at + lanes].copy_from_slice(&columns::<S, _>(rows)[..lanes]);
    }
}

/// Transposes a square: row `i` of the first LEN becomes lane `i` of all rows.
#[inline(always)]
pub fn columns<S: Simd, V: SimdBase<S>>(mut rows: [V; MAX_LANES]) -> [V; MAX_LANES] {
    let mut pass = 1;
    while pass < V::LEN {
        let mut zipped = rows;
        for i in 0..V::LEN / 2 {
            zipped[2 * i] = rows[i].zip_low(rows[i + V::LEN / 2]);
            zipped[2 * i + 1] = rows[i].zip_high(rows[i + V::LEN / 2]);
        }
        rows = zipped;
        pass *= 2;
    }
    rows
}

/// Word `w` of lane `l` to bytes `4 * w` of block `l`; the last word may be truncated.
#[simd]
fn store_words<S: Simd, const B: usize, const W: usize>(
    simd: S,
    words: &[S::u32s; W],
    blocks: &mut [[u8; B]],
) {
    let lanes = S::u32s::LEN;
    for square in 0..W.div_ceil(lanes) {
        let at = square * lanes;
        let mut rows = [S::u32s::splat(simd, 0); MAX_LANES];
        // The last square may have fewer words than lanes; the rest stays zero.
        let n_rows = lanes.min(W - at);
        rows[..n_rows].copy_from_slice(&words[at..at + n_rows]);
        let columns = columns::<S, _>(rows);
        for (block, column) in blocks.iter_mut().zip(&columns) {
            // All levels are little endian, so the bytes of a word are in file order.
            let bytes = column.bitcast::<S::u8s>();
            let block = &mut block[4 * at..];
            if block.len() >= 4 * lanes {
                bytes.store_slice(&mut block[..4 * lanes]);
            } else {
                // A compile-time length.
                let rest = B % (4 * lanes);
                block[..rest].copy_from_slice(&bytes.as_slice()[..rest]);
            }
        }
    }
}

/// [`nearest_int`](crate::round::nearest_int) in every lane, two's complement; equal for every input.
#[simd]
pub fn nearest_int<S: Simd>(simd: S, value: S::f32s) -> S::u32s {
    magic_bits(simd, value) - S::u32s::splat(simd, MAGIC_MANTISSA)
}

/// `nearest_int(value).min(max_level).max(0)` in every lane; equal for every input.
#[simd]
pub fn nearest_level<S: Simd>(simd: S, value: S::f32s, max_level: u32) -> S::u32s {
    let zero = S::u32s::splat(simd, MAGIC_MANTISSA);
    let top = S::u32s::splat(simd, MAGIC_MANTISSA + max_level);
    magic_bits(simd, value).max(zero).min(top) - zero
}

#[simd]
fn magic_bits<S: Simd>(simd: S, value: S::f32s) -> S::u32s {
    let bits = (value + S::f32s::splat(simd, MAGIC)).bitcast::<S::u32s>();
    bits & S::u32s::splat(simd, MANTISSA)
}

#[simd]
pub fn to_float<S: Simd>(_simd: S, levels: S::u32s) -> S::f32s {
    levels.to_float()
}

/// Rounds to half precision: the bits, and the value that a reader will see.
#[simd]
pub fn half<S: Simd>(simd: S, value: S::f32s) -> (S::u32s, S::f32s) {
    let bits = to_half(simd, value);
    (bits, from_half(simd, bits))
}

/// The sum of squares, first to last.
#[simd]
pub fn sum_of_squares<S: Simd, const N: usize>(simd: S, x: &[S::f32s; N]) -> S::f32s {
    let mut sum = S::f32s::splat(simd, 0.0);
    for x in x {
        sum += *x * *x;
    }
    sum
}

/// `nearest_int((x + m) / d).clamp(low, high) - low` for each element, without `m` if it is `None`; arbitrary
/// if `d` is zero. Lanes with a NaN must be wild anyway.
///
/// Products with the reciprocal replace the quotients, which take three times as long: they differ by less
/// than `2^-22` relatively, so they round alike unless one is that close to a half, and then the quotients
/// are computed.
#[simd]
pub fn divide_to_levels<S: Simd, const N: usize>(
    simd: S,
    x: &[S::f32s; N],
    m: Option<S::f32s>,
    d: S::f32s,
    low: i32,
    high: i32,
    levels: &mut [S::u32s; N],
) {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, magic) = (splat(0.0), splat(MAGIC));
    // Bounds are applied to the sum with the magic number: its floats are 1 apart, so they compare like their
    // integers, and their bits differ by the same amount.
    let (floor, ceiling) = (splat(MAGIC + low as f32), splat(MAGIC + high as f32));
    let zero_level = floor.bitcast::<S::u32s>();
    // For zero `d` any level will do; a quotient of zero excludes those lanes from the test.
    let empty = d.simd_eq(zero);
    let inverse = empty.select(zero, splat(1.0) / d);
    let (mut farthest, mut largest) = (zero, zero);
    for i in 0..N {
        let quotient = plus::<S>(x[i], m) * inverse;
        let rounded = quotient + magic;
        farthest = farthest.max((rounded - magic - quotient).abs());
        largest = largest.max(quotient.abs());
        levels[i] = rounded.max(floor).min(ceiling).bitcast::<S::u32s>() - zero_level;
    }
    let size = inverse.abs();
    // Outside these bounds the reciprocal, or a product with it, may be subnormal or infinite, and less
    // exact.
    let precise = empty | (size.simd_gt(splat(1e-30)) & size.simd_lt(splat(1e30)));
    // A reciprocal, a product and a quotient each have a relative error of 2^-24, and 3 * 2^-24 < 2.4e-7. If
    // no product is nearer to a half than that, all round like their quotients.
    let sure = precise & (farthest + largest * splat(2.4e-7)).simd_lt(splat(0.5));
    if !sure.all_true() {
        for i in 0..N {
            // Some lane is uncertain: compute the quotients like the scalar code.
            let level = nearest_int(simd, plus::<S>(x[i], m) / d).bitcast::<S::i32s>();
            let (low, high) = (S::i32s::splat(simd, low), S::i32s::splat(simd, high));
            levels[i] = (level.max(low).min(high) - low).bitcast::<S::u32s>();
        }
    }
}

#[inline(always)]
fn plus<S: Simd>(x: S::f32s, m: Option<S::f32s>) -> S::f32s {
    match m {
        Some(m) => x + m,
        None => x,
    }
}
