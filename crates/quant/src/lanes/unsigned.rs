//! [`fit::unsigned`](crate::fit::unsigned), one block per lane: the scales of a block's scales, and the start
//! of the search of IQ2_XXS.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{MAGIC, nearest_int};
use crate::fit::SMALLEST_GROUP;

/// Numbers that are fitted in parallel (scales and minima, or two sub-blocks), so that
/// their divisions overlap.
const SIDES: usize = 2;

/// Fits both sides at once and returns the scales; equal for every input, except for the sign of a NaN.
#[simd]
pub fn unsigned<S: Simd, const N: usize>(
    simd: S,
    values: [&[S::f32s; N]; SIDES],
    weights: [&[S::f32s; N]; SIDES],
    max_level: u8,
    levels: &mut [[S::u32s; N]; SIDES],
) -> [S::f32s; SIDES] {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, one) = (splat(0.0), splat(1.0));
    let low_byte = S::u32s::splat(simd, 0xff);
    // `MAX` of the reference: values that do not compare take the new number.
    let mut max = [zero; SIDES];
    for i in 0..N {
        for g in 0..SIDES {
            let x = values[g][i];
            max[g] = max[g].simd_gt(x).select(max[g], x);
        }
    }
    // The first try: the largest number at `max_level`. Its error `sum w (x - d q)^2` is the one to beat;
    // levels are bytes, like in the reference, and wrap.
    let mut inv_scale = [zero; SIDES];
    let mut best_error = [zero; SIDES];
    for g in 0..SIDES {
        inv_scale[g] = splat(f32::from(max_level)) / max[g];
        let scale = one / inv_scale[g];
        for i in 0..N {
            let level: S::f32s = (nearest_int(simd, inv_scale[g] * values[g][i]) & low_byte).to_float();
            let miss = values[g][i] - scale * level;
            best_error[g] += weights[g][i] * miss * miss;
        }
    }
    // Eight more tries around it, in steps of a tenth of a level, with levels that are bounded above instead
    // of wrapped.
    for step in (-4i8..=4).filter(|step| *step != 0) {
        let span = splat(0.1 * f32::from(step) + f32::from(max_level));
        let (mut trial, mut scale, mut error) = ([zero; SIDES], [zero; SIDES], [zero; SIDES]);
        for g in 0..SIDES {
            trial[g] = span / max[g];
            scale[g] = one / trial[g];
        }
        for i in 0..N {
            for g in 0..SIDES {
                let x = values[g][i];
                let level: S::f32s = bounded(simd, trial[g] * x, max_level).to_float();
                let miss = x - scale[g] * level;
                error[g] += weights[g][i] * miss * miss;
            }
        }
        for g in 0..SIDES {
            let better = error[g].simd_lt(best_error[g]);
            best_error[g] = better.select(error[g], best_error[g]);
            inv_scale[g] = better.select(trial[g], inv_scale[g]);
        }
    }

    // Levels are floats between the steps; bytes would be equal. `lx = sum w x q` and `l2 = sum w q^2` of the
    // best try, with signed levels; the byte is stored.
    let mut level = [[zero; N]; SIDES];
    let mut weighted = [[zero; N]; SIDES];
    let (mut sum_lx, mut sum_l2) = ([zero; SIDES], [zero; SIDES]);
    for i in 0..N {
        for g in 0..SIDES {
            let found = bounded(simd, inv_scale[g] * values[g][i], max_level);
            let signed: S::f32s = found.to_float();
            weighted[g][i] = weights[g][i] * values[g][i];
            sum_lx[g] += weighted[g][i] * signed;
            sum_l2[g] += weights[g][i] * signed * signed;
            level[g][i] = (found.bitcast::<S::u32s>() & low_byte).to_float();
        }
    }
    // Sweeps that move single levels while `lx^2 / l2` grows.
    for _ in 0..5 {
        let mut changed = S::mask32s::splat(simd, false);
        for i in 0..N {
            for g in 0..SIDES {
                let (x, w, wx, old) = (values[g][i], weights[g][i], weighted[g][i], level[g][i]);
                // The sums without the number, its best level for the rest (`x l2 / lx`), and the sums with
                // that.
                let mut lx = sum_lx[g] - wx * old;
                let mut l2 = sum_l2[g] - w * old * old;
                let found = bounded(simd, x * l2 / lx, max_level);
                let new: S::f32s = found.to_float();
                let mut better = lx.simd_gt(zero) & l2.simd_gt(zero) & !new.simd_eq(old);
                lx += wx * new;
                l2 += w * new * new;
                // `lx^2 / l2` grew, multiplied out.
                better &= (lx * lx * sum_l2[g]).simd_gt(sum_lx[g] * sum_lx[g] * l2);
                level[g][i] = better.select((found.bitcast::<S::u32s>() & low_byte).to_float(), old);
                sum_lx[g] = better.select(lx, sum_lx[g]);
                sum_l2[g] = better.select(l2, sum_l2[g]);
                changed |= better;
            }
        }
        if !changed.any_true() {
            break;
        }
    }
    let mut scales = [zero; SIDES];
    for g in 0..SIDES {
        let empty = max[g].simd_lt(splat(SMALLEST_GROUP));
        let scale = sum_l2[g].simd_gt(zero).select(sum_lx[g] / sum_l2[g], zero);
        scales[g] = empty.select(zero, scale);
        for i in 0..N {
            // From float to integer: the low byte of the sum with the magic number.
            let bits = (level[g][i] + splat(MAGIC)).bitcast::<S::u32s>() & low_byte;
            levels[g][i] = empty.select(S::u32s::splat(simd, 0), bits);
        }
    }
    scales
}

/// `nearest_int(value).min(max_level)`.
#[simd]
fn bounded<S: Simd>(simd: S, value: S::f32s, max_level: u8) -> S::i32s {
    nearest_int(simd, value).bitcast::<S::i32s>().min(S::i32s::splat(simd, i32::from(max_level)))
}
