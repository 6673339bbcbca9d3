//! Blocks of 32 elements without a search. Here **a lane is an element**: only the largest or smallest value
//! of a block is needed, which does not depend on the order. The extremes of LEN blocks are then in one
//! vector, one lane per block, for dividing and rounding scales; levels are computed element by element
//! again.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{MAX_LANES, halves::to_half};
use crate::block::{array_at_mut, put_u16, put_u32};

pub const ELEMS: usize = 32;
/// Number of vectors with two 4-bit levels per lane for LEN blocks.
const PACKED: usize = ELEMS / 2;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// Parameters of a block's levels, one lane per block.
struct Steps<S: Simd> {
    scale: S::f32s,
    inv_scale: S::f32s,
    base: S::f32s,
    wild: u64,
}

/// Encodes blocks of `B` bytes, LEN at a time. `kernel(values, blocks)` returns the bits of the wild blocks;
/// `scalar(values, block)` encodes those, and the rest at the end.
#[inline(always)]
pub fn encode<S: Simd, const B: usize>(
    _simd: S,
    values: &[f32],
    out: &mut [u8],
    kernel: impl Fn(&[[f32; ELEMS]], &mut [[u8; B]]) -> u64,
    scalar: impl Fn(&[f32; ELEMS], &mut [u8; B]),
) {
    let lanes = S::f32s::LEN;
    let values = values.as_chunks::<ELEMS>().0;
    let blocks = out.as_chunks_mut::<B>().0;
    for (values, blocks) in values.chunks(lanes).zip(blocks.chunks_mut(lanes)) {
        // Fewer than LEN blocks at the end are left to the scalar code.
        let wild = if values.len() == lanes { kernel(values, blocks) } else { u64::MAX };
        if wild == 0 {
            continue;
        }
        for (lane, (values, block)) in values.iter().zip(blocks).enumerate() {
            if wild >> lane & 1 == 1 {
                scalar(values, block);
            }
        }
    }
}

/// Q8_0: the largest magnitude becomes 127.
#[simd]
pub fn bytes<S: Simd>(simd: S, values: &[[f32; ELEMS]], blocks: &mut [[u8; 34]]) -> u64 {
    let lanes = S::f32s::LEN;
    // `max |x|` of each block. Magnitudes are ordered like their bits, and a NaN is above infinity, so it
    // stays and makes the block wild.
    let mut largest = [S::u32s::splat(simd, 0); MAX_LANES];
    for (values, largest) in values.iter().zip(&mut largest) {
        for values in values.chunks_exact(lanes) {
            let bits = S::f32s::from_slice(simd, values).bitcast::<S::u32s>();
            *largest = (*largest).max(bits & S::u32s::splat(simd, MAGNITUDE));
        }
    }
    let largest = reduce(
        simd,
        largest,
        #[inline(always)]
        |a, b| a.max(b),
    );
    let zero = S::f32s::splat(simd, 0.0);
    let steps = steps(simd, largest.bitcast::<S::f32s>() / S::f32s::splat(simd, 127.0), zero);
    let heads = to_half(simd, steps.scale);
    let (heads, inv_scales) = (heads.as_slice(), steps.inv_scale.as_slice());

    // `q = round(x / d)`, halves away from zero. Four vectors of 32 bits are narrowed to one of bytes, so
    // that the elements of all blocks are processed in one loop.
    let mut levels = [0u8; ELEMS * MAX_LANES];
    for (at, levels) in levels[..ELEMS * lanes].chunks_exact_mut(4 * lanes).enumerate() {
        let mut four = [S::i32s::splat(simd, 0); 4];
        for (part, four) in four.iter_mut().enumerate() {
            let elem = (4 * at + part) * lanes;
            let (block, elem) = (elem / ELEMS, elem % ELEMS);
            let x = S::f32s::from_slice(simd, &values[block][elem..elem + lanes]);
            let step = x * S::f32s::splat(simd, inv_scales[block]);
            // For the reason not to use 0.5 see [`round_away`](crate::round::round_away).
            let half = S::f32s::splat(simd, 0.499_999_97).copysign(step);
            *four = S::i32s::truncate_from(step + half);
        }
        // Levels are within -127..=127, except in wild blocks, so that they never saturate.
        let low = four[0].saturating_narrow(four[1]);
        let high = four[2].saturating_narrow(four[3]);
        low.saturating_narrow(high).bitcast::<S::u8s>().store_slice(levels);
    }
    for ((block, head), levels) in blocks.iter_mut().zip(heads).zip(levels.as_chunks::<ELEMS>().0) {
        put_u16(block, 0, *head as u16);
        *array_at_mut(block, 2) = *levels;
    }
    steps.wild
}

/// Q4_0 and Q5_0: the value of largest magnitude becomes level 0, which means `-half`.
#[simd]
pub fn signed<S: Simd, const B: usize>(
    simd: S,
    values: &[[f32; ELEMS]],
    half: u8,
    blocks: &mut [[u8; B]],
) -> u64 {
    let zero = S::f32s::splat(simd, 0.0);
    let max = largest(simd, values);
    // A power of two: the product equals the quotient.
    let steps = steps(simd, max * S::f32s::splat(simd, -1.0 / f32::from(half)), zero);
    let heads = to_half(simd, steps.scale);
    for (block, head) in blocks.iter_mut().zip(heads.as_slice()) {
        put_u16(block, 0, *head as u16);
    }
    put_levels(simd, values, &steps, f32::from(half) + 0.5, half, 2, blocks);
    steps.wild
}

/// Q4_1 and Q5_1: the range of the values is divided into `2 * half - 1` steps.
#[simd]
pub fn ranged<S: Simd, const B: usize>(
    simd: S,
    values: &[[f32; ELEMS]],
    half: u8,
    blocks: &mut [[u8; B]],
) -> u64 {
    let lanes = S::f32s::LEN;
    let zero = S::f32s::splat(simd, 0.0);
    // The range of each block. A minimum can lose a NaN, so NaNs are detected separately: only numbers equal
    // themselves.
    let (mut lowest, mut highest) = ([zero; MAX_LANES], [zero; MAX_LANES]);
    let mut numbers = S::mask32s::splat(simd, true);
    for (block, values) in values.iter().enumerate() {
        lowest[block] = S::f32s::from_slice(simd, &values[..lanes]);
        highest[block] = lowest[block];
        numbers &= lowest[block].simd_eq(lowest[block]);
        for values in values[lanes..].chunks_exact(lanes) {
            let x = S::f32s::from_slice(simd, values);
            numbers &= x.simd_eq(x);
            lowest[block] = lowest[block].min(x);
            highest[block] = highest[block].max(x);
        }
    }
    let mut min = reduce(
        simd,
        lowest,
        #[inline(always)]
        |a, b| a.min(b),
    );
    let max = reduce(
        simd,
        highest,
        #[inline(always)]
        |a, b| a.max(b),
    );
    // The first of two zeros counts, which is visible in the file.
    let mut zeros = min.simd_eq(zero).to_bitmask();
    while zeros != 0 {
        let lane = zeros.trailing_zeros() as usize;
        min.as_mut_slice()[lane] = first_of(simd, &values[lane], 0.0);
        zeros &= zeros - 1;
    }
    // Adding zero turns -0 into the difference of two equal zeros.
    let steps = steps(simd, (max - min + zero) / S::f32s::splat(simd, f32::from(2 * half - 1)), min);
    let heads = to_half(simd, steps.scale) | (to_half(simd, min) << 16);
    for (block, head) in blocks.iter_mut().zip(heads.as_slice()) {
        put_u32(block, 0, *head);
    }
    put_levels(simd, values, &steps, 0.5, half, 4, blocks);
    if numbers.all_true() { steps.wild } else { u64::MAX }
}

/// The value of largest magnitude of each block, the first of equals; infinite or NaN if any value is.
///
/// As integers, positive floats are ordered like their values and above all negative ones; as unsigned
/// integers, negative floats are above all positive ones, ordered by magnitude.
#[simd]
fn largest<S: Simd>(simd: S, values: &[[f32; ELEMS]]) -> S::f32s {
    let lanes = S::f32s::LEN;
    // The largest positive value and the largest negative magnitude of each block.
    let mut positive = [S::i32s::splat(simd, 0); MAX_LANES];
    let mut negative = [S::u32s::splat(simd, 0); MAX_LANES];
    for (block, values) in values.iter().enumerate() {
        for values in values.chunks_exact(lanes) {
            let x = S::f32s::from_slice(simd, values);
            positive[block] = positive[block].max(x.bitcast::<S::i32s>());
            negative[block] = negative[block].max(x.bitcast::<S::u32s>());
        }
    }
    let positive = reduce(
        simd,
        positive,
        #[inline(always)]
        |a, b| a.max(b),
    );
    let negative = reduce(
        simd,
        negative,
        #[inline(always)]
        |a, b| a.max(b),
    );
    let positive = positive.bitcast::<S::u32s>();
    let sign = S::u32s::splat(simd, !MAGNITUDE);
    // Zero if no value is negative: then the largest is positive.
    let negative = negative.simd_ge(sign).select(negative - sign, S::u32s::splat(simd, 0));
    let more = negative.simd_gt(positive);
    let mut max = more.select(negative | sign, positive).bitcast::<S::f32s>();
    // If both ends are equally far, the first counts, like in the scalar scan.
    let mut ties = (negative.simd_eq(positive) & positive.simd_gt(S::u32s::splat(simd, 0))).to_bitmask();
    while ties != 0 {
        let lane = ties.trailing_zeros() as usize;
        let magnitude = max.as_slice()[lane];
        max.as_mut_slice()[lane] = first_of(simd, &values[lane], magnitude);
        ties &= ties - 1;
    }
    max
}

/// Whichever of `value` and `-value` comes first among `values`.
#[simd]
fn first_of<S: Simd>(simd: S, values: &[f32; ELEMS], value: f32) -> f32 {
    let lanes = S::f32s::LEN;
    let (mut plus, mut minus) = (0, 0);
    for (at, values) in values.chunks_exact(lanes).enumerate() {
        let bits = S::f32s::from_slice(simd, values).bitcast::<S::u32s>();
        // Compares bits instead of numbers, to distinguish the two zeros.
        plus |= bits.simd_eq(S::u32s::splat(simd, value.to_bits())).to_bitmask() << (at * lanes);
        minus |= bits.simd_eq(S::u32s::splat(simd, (-value).to_bits())).to_bitmask() << (at * lanes);
    }
    if u64::trailing_zeros(plus) < u64::trailing_zeros(minus) { value } else { -value }
}

/// Reciprocals of the scales; wild if a scale or its reciprocal is not finite.
#[simd]
fn steps<S: Simd>(simd: S, scale: S::f32s, base: S::f32s) -> Steps<S> {
    let (zero, infinity) = (S::f32s::splat(simd, 0.0), S::f32s::splat(simd, f32::INFINITY));
    let inv_scale = scale.simd_eq(zero).select(zero, S::f32s::splat(simd, 1.0) / scale);
    let tame = scale.abs().simd_lt(infinity) & inv_scale.abs().simd_lt(infinity);
    Steps { scale, inv_scale, base, wild: (!tame).to_bitmask() }
}

/// Folds each of the first LEN vectors to one lane: lane `i` of the result is that of vector `i`.
#[simd]
fn reduce<S: Simd, V: SimdBase<S>>(_simd: S, mut rows: [V; MAX_LANES], fold: impl Fn(V, V) -> V) -> V {
    // Each round zips the first half of the vectors with the second and folds: a transpose combined with the
    // reduction, in LEN - 1 folds.
    let mut n_rows = V::LEN;
    while n_rows > 1 {
        n_rows /= 2;
        for i in 0..n_rows {
            rows[i] = fold(rows[i].zip_low(rows[i + n_rows]), rows[i].zip_high(rows[i + n_rows]));
        }
    }
    rows[0]
}

/// Writes the levels `(x - base) * inv_scale + offset`, truncated to integers below `2 * half`: fifth bits,
/// if there are any, at byte `at`, followed by the lower four bits.
#[simd]
fn put_levels<S: Simd, const B: usize>(
    simd: S,
    values: &[[f32; ELEMS]],
    steps: &Steps<S>,
    offset: f32,
    half: u8,
    at: usize,
    blocks: &mut [[u8; B]],
) {
    let lanes = S::f32s::LEN;
    // A byte contains the low bits of element `i` and, above them, of element `i + 16`.
    let five = half == 16;
    let n_vectors = PACKED / lanes;
    let (inv_scales, bases) = (steps.inv_scale.as_slice(), steps.base.as_slice());
    let top = S::i32s::splat(simd, 2 * i32::from(half) - 1);
    let mut packed = [S::i32s::splat(simd, 0); PACKED];
    for (block, values) in values.iter().enumerate() {
        let inv_scale = S::f32s::splat(simd, inv_scales[block]);
        let base = S::f32s::splat(simd, bases[block]);
        let mut fifth = 0;
        for vector in 0..n_vectors {
            let mut pair = [S::i32s::splat(simd, 0); 2];
            for (side, level) in pair.iter_mut().enumerate() {
                let elem = PACKED * side + lanes * vector;
                let x = S::f32s::from_slice(simd, &values[elem..elem + lanes]);
                // The offset raises the lowest step to zero and adds a half, so that truncation rounds.
                let step = (x - base) * inv_scale + S::f32s::splat(simd, offset);
                *level = S::i32s::truncate_from(step).min(top);
                if five {
                    let low = S::i32s::splat(simd, 15);
                    fifth |= (level.simd_gt(low).to_bitmask() as u32) << elem;
                    *level &= low;
                }
            }
            packed[block * n_vectors + vector] = pair[0] | (pair[1] << 4);
        }
        if five {
            put_u32(&mut blocks[block], at, fifth);
        }
    }
    // From lanes of 32 bits, each below 256, to bytes.
    let mut nibbles = [0u8; PACKED * MAX_LANES];
    let chunks = nibbles[..PACKED * lanes].chunks_exact_mut(4 * lanes);
    for (four, nibbles) in packed.as_chunks::<4>().0.iter().zip(chunks) {
        let low = four[0].bitcast::<S::u32s>().narrow(four[1].bitcast());
        let high = four[2].bitcast::<S::u32s>().narrow(four[3].bitcast());
        low.narrow(high).store_slice(nibbles);
    }
    for (block, nibbles) in blocks.iter_mut().zip(nibbles.as_chunks::<PACKED>().0) {
        *array_at_mut(block, B - PACKED) = *nibbles;
    }
}
