//! IQ1_M, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{
    BYTES,
    scalar::{self, SUB},
    split_lanes::{Sums, best_split},
};
use crate::{
    Rows,
    block::{array_at, array_at_mut},
    iq_fit::{
        SUPER,
        ternary::{
            DELTA, DOWN, UP,
            points::{self, Group, Neighbours},
            split,
        },
    },
    lanes::{encode_units, half, nearest_level, sum_of_squares},
};

const WORDS: usize = BYTES / 4;
const SUBS: usize = SUPER / SUB;

#[simd]
pub fn encode<S: Simd>(simd: S, rows: Rows<'_>, out: &mut [u8]) {
    let lists = Neighbours::iq1();
    let mut sums = Sums::new(simd);
    let splat = |value: f32| S::f32s::splat(simd, value);
    let mut weights = [splat(0.0); SUPER];
    encode_units::<S, SUPER, BYTES, WORDS>(
        simd,
        rows,
        out,
        #[inline(always)]
        |_, x, importance, words| {
            match importance {
                None => {
                    for i in 0..SUPER {
                        weights[i] = x[i] * x[i];
                    }
                }
                Some(importance) => {
                    let sigma2 = splat(2.0) * sum_of_squares(simd, x) / splat(SUPER as f32);
                    for i in 0..SUPER {
                        weights[i] = importance[i] * (sigma2 + x[i] * x[i]).sqrt();
                    }
                }
            }
            encode_unit(simd, lists, x, &weights, &mut sums, words)
        },
        scalar::encode,
    );
}

#[inline(never)]
#[simd]
fn encode_unit<S: Simd>(
    simd: S,
    lists: &Neighbours,
    x: &[S::f32s; SUPER],
    weights: &[S::f32s; SUPER],
    sums: &mut Sums<S::f32s>,
    words: &mut [S::u32s; WORDS],
) -> u64 {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, one) = (S::u32s::splat(simd, 0), S::u32s::splat(simd, 1));
    let mut wild = 0;
    let mut scales = [splat(0.0); SUBS];
    let mut shifts = [zero; SUBS];
    let mut codes = [[zero; 2]; SUBS];
    let mut max_scale = splat(0.0);
    *words = [zero; WORDS];
    for at in 0..SUBS {
        let (values, weights) = (array_at(x, SUB * at), array_at(weights, SUB * at));
        (scales[at], shifts[at], codes[at]) = encode_sub(simd, lists, values, weights, sums, &mut wild);
        max_scale = max_scale.max(scales[at]);
        // Bit 0 of the shift belongs to the second half of the sub-block, bit 1 to the first: bits 7 and 3 of
        // the byte.
        let mut head = ((shifts[at] & 1) << 7) | ((shifts[at] & 2) << 2);
        for half in 0..2 {
            let mut index = one;
            for lane in 0..S::f32s::LEN {
                index.as_mut_slice()[lane] = lists.index(codes[at][half].as_slice()[lane]);
            }
            words[at / 2] |= (index & 0xff) << (at % 2 * 16 + 8 * half) as u32;
            head |= (index >> 8) << (4 * half as u32);
        }
        words[8 + at / 4] |= head << (at % 4 * 8) as u32;
    }
    // Blocks of zeros, and scales for which `1 / d` would lose bits, are left to the scalar code.
    wild |= !(max_scale.simd_gt(splat(1e-20)) & max_scale.simd_lt(splat(1e20))).to_bitmask();

    let d = max_scale / splat(15.0);
    let inverse = splat(1.0) / d;
    let (mut sum_qx, mut sum_q2) = (splat(0.0), splat(0.0));
    for at in 0..SUBS {
        // Scales become odd numbers from 1 to 15, and then `d` is fitted to these:
        // `d = sum w q x / sum w q^2` with `q` times that number.
        let level = nearest_level(simd, splat(0.5) * (inverse * scales[at] - splat(1.0)), 7);
        words[12 + at / 8] |= level << (at / 4 % 2 * 16 + at % 4 * 3) as u32;
        let factor = (level + level + one).to_float::<S::f32s>();
        let (values, weights) = (array_at(x, SUB * at), array_at(weights, SUB * at));
        let ups = ups(simd, shifts[at]);
        add_sums(simd, &codes[at], ups, values, weights, factor, [&mut sum_qx, &mut sum_q2]);
    }
    let d = sum_q2.simd_gt(splat(0.0)).select(sum_qx / sum_q2, d);
    let (bits, _) = half(simd, d * splat(1.1125));
    // `d` is stored as four parts of 4 bits at the top of the four words of scales.
    let [low, high]: &mut [S::u32s; 2] = array_at_mut(words, 12);
    *low |= ((bits & 0x000f) << 12) | ((bits & 0x00f0) << 24);
    *high |= ((bits & 0x0f00) << 4) | ((bits & 0xf000) << 16);
    wild
}

/// True for each half whose levels are moved up.
#[simd]
fn ups<S: Simd>(simd: S, shift: S::u32s) -> [S::mask32s; 2] {
    let zero = S::u32s::splat(simd, 0);
    [(shift & 2).simd_eq(zero), (shift & 1).simd_eq(zero)]
}

/// Adds `w*q*x` and `w*q*q` of a sub-block to the sums, element by element.
#[simd]
fn add_sums<S: Simd>(
    simd: S,
    codes: &[S::u32s; 2],
    ups: [S::mask32s; 2],
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    factor: S::f32s,
    sums: [&mut S::f32s; 2],
) {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let [sum_qx, sum_q2] = sums;
    for half in 0..2 {
        let shift = ups[half].select(splat(DELTA - 1.0), splat(-DELTA - 1.0));
        for i in 0..8 {
            let level = (codes[half] >> (2 * i as u32)) & 3;
            let q = (level.to_float::<S::f32s>() + shift) * factor;
            let weighted = weights[8 * half + i] * q;
            *sum_qx += weighted * values[8 * half + i];
            *sum_q2 += weighted * q;
        }
    }
}

/// The scale, the shift and the codes of a sub-block.
#[simd]
fn encode_sub<S: Simd>(
    simd: S,
    lists: &Neighbours,
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    sums: &mut Sums<S::f32s>,
    wild: &mut u64,
) -> (S::f32s, S::u32s, [S::u32s; 2]) {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, one) = (S::u32s::splat(simd, 0), S::u32s::splat(simd, 1));
    let mut ranks = [zero; SUB];
    split::ranks(simd, values, &mut ranks);
    let best = best_split(simd, values, weights, &ranks, sums, wild);

    // A negative scale becomes positive by exchanging low and high and flipping both shifts.
    let (first, second, shift) = (best.split & 0xff, (best.split >> 8) & 0xff, best.split >> 16);
    let flipped = best.scale.simd_lt(splat(0.0));
    let mut scale = best.scale.abs();
    let shift = flipped.select(shift ^ 3, shift);
    let ups = ups(simd, shift);
    let mut codes = [zero; 2];
    for i in 0..SUB {
        let middle = ranks[i].simd_ge(first).select(one, zero);
        let level = middle + ranks[i].simd_ge(second).select(one, zero);
        let level = flipped.select(one + one - level, level);
        codes[i / 8] |= level << (2 * (i % 8) as u32);
    }
    let mut moved = 0;
    for half in 0..2 {
        let levels: [S::f32s; 3] = [0, 1, 2].map(
            #[inline(always)]
            |level: usize| ups[half].select(splat(UP[level]), splat(DOWN[level])),
        );
        let group = Group {
            values: array_at(values, 8 * half),
            weights: array_at(weights, 8 * half),
            scale,
            levels,
            code: &mut codes[half],
        };
        moved |= points::move_to_codebook(simd, lists, group, *wild);
    }
    // If a code was moved, the scale is fitted again.
    let (mut sum_qx, mut sum_q2) = (splat(0.0), splat(0.0));
    add_sums(simd, &codes, ups, values, weights, splat(1.0), [&mut sum_qx, &mut sum_q2]);
    let fitted = sum_qx.simd_gt(splat(0.0)) & sum_q2.simd_gt(splat(0.0));
    let fitted = fitted & S::mask32s::from_bitmask(simd, moved);
    scale = fitted.select(sum_qx / sum_q2, scale);
    (scale, shift, codes)
}
