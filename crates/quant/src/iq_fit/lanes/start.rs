//! [`fit::unsigned`](crate::fit::unsigned) with weights for each side, of which only the scale is wanted: where
//! the search of IQ2_XXS begins.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{SIDES, Sub};
use crate::{fit::SMALLEST_GROUP, lanes::nearest_int};

/// The scales; sub-blocks take turns so that one's divisions are hidden by the others.
#[simd]
pub fn scales<S: Simd, const SUB: usize>(
    simd: S,
    subs: &[Sub<S, SUB>; SIDES],
    max_level: u8,
) -> [S::f32s; SIDES] {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, one) = (splat(0.0), splat(1.0));
    let low_byte = S::u32s::splat(simd, 0xff);
    // The steps are those of [`unsigned`](crate::lanes::unsigned::unsigned), which explains them.
    let mut max = [zero; SIDES];
    for i in 0..SUB {
        for g in 0..SIDES {
            let x = subs[g].x[i];
            max[g] = max[g].simd_gt(x).select(max[g], x);
        }
    }
    let mut inv_scale = [zero; SIDES];
    let mut best_error = [zero; SIDES];
    for g in 0..SIDES {
        inv_scale[g] = splat(f32::from(max_level)) / max[g];
        let scale = one / inv_scale[g];
        for i in 0..SUB {
            let x = subs[g].x[i];
            let level: S::f32s = (nearest_int(simd, inv_scale[g] * x) & low_byte).to_float();
            let miss = x - scale * level;
            best_error[g] += subs[g].w[i] * miss * miss;
        }
    }
    for step in (-4i8..=4).filter(|step| *step != 0) {
        let span = splat(0.1 * f32::from(step) + f32::from(max_level));
        let (mut trial, mut scale, mut error) = ([zero; SIDES], [zero; SIDES], [zero; SIDES]);
        for g in 0..SIDES {
            trial[g] = span / max[g];
            scale[g] = one / trial[g];
        }
        for i in 0..SUB {
            for g in 0..SIDES {
                let x = subs[g].x[i];
                let level: S::f32s = bounded(simd, trial[g] * x, max_level).to_float();
                let miss = x - scale[g] * level;
                error[g] += subs[g].w[i] * miss * miss;
            }
        }
        for g in 0..SIDES {
            let better = error[g].simd_lt(best_error[g]);
            best_error[g] = better.select(error[g], best_error[g]);
            inv_scale[g] = better.select(trial[g], inv_scale[g]);
        }
    }

    // Levels stand as floats between the steps, and as bytes they would be the same.
    let mut level = [[zero; SUB]; SIDES];
    let (mut sum_lx, mut sum_l2) = ([zero; SIDES], [zero; SIDES]);
    for i in 0..SUB {
        for g in 0..SIDES {
            let found = bounded(simd, inv_scale[g] * subs[g].x[i], max_level);
            let signed: S::f32s = found.to_float();
            sum_lx[g] += subs[g].wx[i] * signed;
            sum_l2[g] += subs[g].w[i] * signed * signed;
            level[g][i] = (found.bitcast::<S::u32s>() & low_byte).to_float();
        }
    }
    for _ in 0..5 {
        let mut changed = S::mask32s::splat(simd, false);
        for i in 0..SUB {
            for g in 0..SIDES {
                let (x, w, wx, old) = (subs[g].x[i], subs[g].w[i], subs[g].wx[i], level[g][i]);
                let mut lx = sum_lx[g] - wx * old;
                let mut l2 = sum_l2[g] - w * old * old;
                let found = bounded(simd, x * l2 / lx, max_level);
                let new: S::f32s = found.to_float();
                let mut better = lx.simd_gt(zero) & l2.simd_gt(zero) & !new.simd_eq(old);
                lx += wx * new;
                l2 += w * new * new;
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
    }
    scales
}

/// `nearest_int(value).min(max_level)`.
#[simd]
fn bounded<S: Simd>(simd: S, value: S::f32s, max_level: u8) -> S::i32s {
    nearest_int(simd, value).bitcast::<S::i32s>().min(S::i32s::splat(simd, i32::from(max_level)))
}
