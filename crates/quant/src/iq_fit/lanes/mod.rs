//! The search of IQ2 and IQ3 with vectors.
//!
//! Steps that are equal for every element (weights, signs, roots, the start of IQ2_XXS, the last sums)
//! process one block per lane, like all lane kernels; the search for a sub-block's scale processes one
//! candidate scale per lane, block by block, because each has its own neighbor lists: see [`search`].
//!
//! Wild lanes are blocks with values, weights or scales outside the bounds of [`search`].

mod lookup;
mod points;
mod search;

use std::sync::OnceLock;

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

pub use self::{lookup::Lookup, points::Points};
use super::{
    SUPER,
    lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted},
};
use crate::{
    Rows,
    grids::Codebook,
    lanes::{MAX_LANES, sum_of_squares, transpose, unsigned::unsigned},
};

/// Sub-blocks that are prepared at once.
const SIDES: usize = 2;
const MAX_GROUPS: usize = 8;

/// A sub-block of each lane, prepared for the search: [`Magnitudes`](super::lattice::Magnitudes), and values
/// derived from them.
pub struct Sub<S: Simd, const SUB: usize> {
    /// Magnitudes; one of a group is negative if a sign had to be flipped for parity.
    x: [S::f32s; SUB],
    w: [S::f32s; SUB],
    roots: [S::f32s; SUB],
    wx: [S::f32s; SUB],
    twice: [S::f32s; SUB],
    /// Sum of root times magnitude squared, per group.
    x2: [S::f32s; MAX_GROUPS],
    /// Signs, one bit each, 8 elements.
    signs: [S::u32s; 4],
    max: S::f32s,
    /// Largest magnitude, or its negative if signs were flipped.
    reach: S::f32s,
    weight: S::f32s,
}

impl<S: Simd, const SUB: usize> Sub<S, SUB> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        let zero = S::f32s::splat(simd, 0.0);
        Sub {
            x: [zero; SUB],
            w: [zero; SUB],
            roots: [zero; SUB],
            wx: [zero; SUB],
            twice: [zero; SUB],
            x2: [zero; MAX_GROUPS],
            signs: [S::u32s::splat(simd, 0); 4],
            max: zero,
            reach: zero,
            weight: zero,
        }
    }
}

/// Result of the search for a sub-block of each lane.
struct Found<S: Simd> {
    scale: S::f32s,
    codes: [S::u32s; MAX_GROUPS],
    signs: [S::u32s; 4],
    present: u64,
}

/// Encodes rows. `points` is the type's cell for the lists of its codebook, filled at first use;
/// `pack(codebook, choices, block)` writes the choices of a block. Wild blocks, and all blocks if the level
/// has no table lookups, are encoded by [`Recipe::encode_block`].
#[simd]
pub fn encode<
    S: Lookup,
    const SUB: usize,
    const DIMS: usize,
    const LEVELS: usize,
    const N_SUBS: usize,
    const B: usize,
>(
    simd: S,
    recipe: &Recipe<SUB, DIMS, LEVELS>,
    points: &OnceLock<Points>,
    rows: Rows<'_>,
    out: &mut [u8],
    pack: impl Fn(&Codebook, &[Choice; N_SUBS], &mut [u8; B]),
) {
    const { assert!(N_SUBS * SUB == SUPER && N_SUBS.is_multiple_of(SIDES)) };
    if !S::AVAILABLE {
        return recipe.encode(rows, out, pack);
    }
    let points = points.get_or_init(|| Points::of(&recipe.lattice));
    let lanes = S::f32s::LEN;
    let zero = S::f32s::splat(simd, 0.0);
    let values = rows.values.as_chunks::<SUPER>().0;
    let weights = rows.weights.map(|weights| weights.as_chunks::<SUPER>().0);
    let mut x = [zero; SUPER];
    let mut importance = [zero; SUPER];
    let mut subs: [Sub<S, SUB>; SIDES] = std::array::from_fn(
        #[inline(always)]
        |_| Sub::new(simd),
    );
    let mut found: [Found<S>; N_SUBS] = std::array::from_fn(
        #[inline(always)]
        |_| Found {
            scale: zero,
            codes: [S::u32s::splat(simd, 0); MAX_GROUPS],
            signs: [S::u32s::splat(simd, 0); 4],
            present: 0,
        },
    );
    let mut search = search::Search::new(simd, &recipe.lattice, points);
    for (unit, blocks) in out.as_chunks_mut::<B>().0.chunks_mut(lanes).enumerate() {
        let chosen: [usize; MAX_LANES] =
            std::array::from_fn(|lane| (unit * lanes + lane).min(values.len() - 1));
        transpose(simd, values, chosen, &mut x);
        if let Some(weights) = weights {
            transpose(simd, weights, chosen.map(|block| block % weights.len()), &mut importance);
        }
        // `sigma2 = factor * mean(x^2)`. Below 1e9 no magnitude is above sqrt(256e9) < 2^20, which the
        // margins of the search assume.
        let sigma2 = S::f32s::splat(simd, recipe.sigma_factor) * sum_of_squares(simd, &x)
            / S::f32s::splat(simd, SUPER as f32);
        let used = (1u64 << blocks.len()) - 1;
        let mut wild = !sigma2.simd_lt(S::f32s::splat(simd, 1e9)).to_bitmask() & used;
        for first in (0..N_SUBS).step_by(SIDES) {
            for side in 0..SIDES {
                let at = (first + side) * SUB;
                let importance = weights.is_some().then(|| block_part(&importance, at));
                prepare(simd, recipe, block_part(&x, at), importance, sigma2, &mut subs[side]);
            }
            let starts = starts(simd, recipe, &subs);
            for side in 0..SIDES {
                let found = &mut found[first + side];
                let active = used & !wild;
                wild |= fit(simd, recipe, &mut search, &subs[side], starts[side], active, found);
            }
        }
        for (lane, block) in blocks.iter_mut().enumerate() {
            if wild >> lane & 1 == 1 {
                let index = unit * lanes + lane;
                let weights = weights.map(|weights| &weights[index % weights.len()]);
                recipe.encode_block(&values[index], weights, block, &pack);
            } else {
                let choices = std::array::from_fn(
                    #[inline(always)]
                    |at| choice(recipe, &found[at], lane),
                );
                pack(recipe.lattice.codebook, &choices, block);
            }
        }
    }
}

#[inline(always)]
fn block_part<T, const SUB: usize>(block: &[T; SUPER], at: usize) -> &[T; SUB] {
    crate::block::array_at(block, at)
}

/// Weights, signs and magnitudes.
#[simd]
fn prepare<S: Simd, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    recipe: &Recipe<SUB, DIMS, LEVELS>,
    source: &[S::f32s; SUB],
    importance: Option<&[S::f32s; SUB]>,
    sigma2: S::f32s,
    sub: &mut Sub<S, SUB>,
) {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    for i in 0..SUB {
        let x = source[i];
        sub.w[i] = match (importance, recipe.unweighted) {
            (Some(importance), _) => importance[i] * (sigma2 + x * x).sqrt(),
            (None, Unweighted::Squares) => x * x,
            (None, Unweighted::SquaresAndMean) => splat(0.25) * sigma2 + x * x,
        };
    }
    for eight in 0..SUB / 8 {
        let at = 8 * eight;
        let mut signs = S::u32s::splat(simd, 0);
        for i in 0..8 {
            let x = source[at + i];
            let positive = x.simd_ge(zero);
            sub.x[at + i] = positive.select(x, -x);
            signs |= positive.select(S::u32s::splat(simd, 0), S::u32s::splat(simd, 1 << i));
        }
        if recipe.even {
            // The parity of eight bits, folded in halves.
            let parity = signs ^ (signs >> 4);
            let parity = parity ^ (parity >> 2);
            let parity = (parity ^ (parity >> 1)) & S::u32s::splat(simd, 1);
            let odd = parity.simd_eq(S::u32s::splat(simd, 1));
            // The element that is cheapest to flip, by `w x^2`; the first of equals.
            let mut least = sub.w[at] * source[at] * source[at];
            let mut bit = S::u32s::splat(simd, 1);
            for i in 1..8 {
                let cost = sub.w[at + i] * source[at + i] * source[at + i];
                let less = cost.simd_lt(least);
                least = less.select(cost, least);
                bit = less.select(S::u32s::splat(simd, 1 << i), bit);
            }
            let bit = odd.select(bit, S::u32s::splat(simd, 0));
            for i in 0..8 {
                // Its magnitude becomes negative and its sign is flipped, so that the value stays.
                let flips = bit.simd_eq(S::u32s::splat(simd, 1 << i));
                sub.x[at + i] = flips.select(-sub.x[at + i], sub.x[at + i]);
            }
            signs = (signs ^ bit) & S::u32s::splat(simd, 127);
        }
        sub.signs[eight] = signs;
    }
    // Inputs of the search: see the fields of [`Sub`].
    let (mut max, mut reach, mut weight) = (sub.x[0], zero, zero);
    for i in 0..SUB {
        let x = sub.x[i];
        max = max.simd_gt(x).select(max, x);
        reach = reach.max(x.abs());
        sub.roots[i] = sub.w[i].sqrt();
        sub.wx[i] = sub.w[i] * x;
        let root_x = sub.roots[i] * x;
        sub.twice[i] = root_x + root_x;
        weight += sub.roots[i];
    }
    for group in 0..SUB / DIMS {
        let mut x2 = zero;
        for i in group * DIMS..(group + 1) * DIMS {
            x2 += sub.roots[i] * sub.x[i] * sub.x[i];
        }
        sub.x2[group] = x2;
    }
    (sub.max, sub.reach, sub.weight) = (max, reach, weight);
}

/// The initial scale and the value that the middle candidate maps to the top level; the latter is 0 if there
/// is no search.
#[simd]
fn starts<S: Simd, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    recipe: &Recipe<SUB, DIMS, LEVELS>,
    subs: &[Sub<S, SUB>; SIDES],
) -> [(S::f32s, S::f32s); SIDES] {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let top = (2 * Lattice::<SUB, DIMS, LEVELS>::TOP + 1) as f32;
    let fitted = match recipe.start {
        Start::Fitted => {
            let (x, w) = (subs.each_ref().map(|sub| &sub.x), subs.each_ref().map(|sub| &sub.w));
            unsigned(simd, x, w, 4, &mut [[S::u32s::splat(simd, 0); SUB]; SIDES])
        }
        Start::Largest => [splat(0.0); SIDES],
    };
    std::array::from_fn(
        #[inline(always)]
        |side| {
            let max = subs[side].max;
            let (start, anchor) = match recipe.start {
                Start::Fitted => (fitted[side], fitted[side] * splat(3.0)),
                Start::Largest => (max / splat(top), max),
            };
            let skipped = max.simd_lt(splat(recipe.smallest)) | anchor.simd_le(splat(0.0));
            (start, skipped.select(splat(0.0), anchor))
        },
    )
}

/// Searches the active lanes; returns the wild ones.
#[simd]
fn fit<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    recipe: &Recipe<SUB, DIMS, LEVELS>,
    search: &mut search::Search<'_, S, SUB, DIMS, LEVELS>,
    sub: &Sub<S, SUB>,
    (start, anchor): (S::f32s, S::f32s),
    active: u64,
    found: &mut Found<S>,
) -> u64 {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, one) = (splat(0.0), splat(1.0));
    let refit = recipe.lattice.refit;
    // The bounds of the search. Comparisons with NaN are false, so such lanes are wild. `reach / anchor`
    // below 2^16 keeps `x * inverse` below 18 * 2^16 < 2^22, so that the magic number rounds exactly (18 is
    // the highest level that a candidate maps the anchor to: 15 and 15 steps of 0.2). Sums of roots below
    // 1e12 keep every line times a scale finite, an anchor above 1e-30 keeps `inverse` finite.
    let tame = sub.weight.simd_lt(splat(1e12))
        & (anchor.simd_eq(zero)
            | (anchor.simd_gt(splat(1e-30)) & sub.reach.simd_lt(anchor * splat(65536.0))));
    let present = !anchor.simd_eq(zero);
    let mut wild = !tame.to_bitmask();
    found.present = present.to_bitmask() & active;
    found.signs = sub.signs;
    found.scale = zero;
    let mut off = [0u32; MAX_LANES];
    let mut lanes = found.present & !wild;
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        let begin = (start.as_slice()[lane], anchor.as_slice()[lane]);
        let picked = search::search(simd, search, sub, lane, begin);
        found.scale.as_mut_slice()[lane] = picked.scale;
        off[lane] = picked.off;
        for group in 0..SUB / DIMS {
            found.codes[group].as_mut_slice()[lane] = picked.codes[group];
        }
    }

    // The points are found again at the fitted scale if the type requires it.
    let inverse = one / found.scale;
    let mut codes = [S::u32s::splat(simd, 0); MAX_GROUPS];
    search::round_lanes::<S, SUB, DIMS, LEVELS>(simd, sub, inverse, &mut codes);
    let positive = found.scale.simd_gt(zero).to_bitmask();
    // The magic number again: 1e6 is below 2^22, and half of the product is rounded.
    wild |= positive & (sub.reach * inverse).simd_ge(splat(1e6)).to_bitmask();
    let mut lanes = found.present & !wild & positive;
    let mut again = 0u64;
    let all_groups = (1u32 << (SUB / DIMS)) - 1;
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        // One bit for each group to be placed again.
        let mut groups = match refit {
            Refit::All => all_groups,
            Refit::AllIfAnyOff if off[lane] & all_groups != 0 => all_groups,
            Refit::AllIfAnyOff => 0,
            Refit::OffGrid => off[lane] & all_groups,
        };
        again |= u64::from(groups != 0) << lane;
        let scale = (found.scale.as_slice()[lane], inverse.as_slice()[lane]);
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            let code = codes[group].as_slice()[lane];
            found.codes[group].as_mut_slice()[lane] =
                search::place(simd, search, sub, lane, group, code, scale);
        }
    }
    // Then the scale is fitted to the new groups.
    let (sum_qx, sum_q2) = search::sums_of_lanes::<S, SUB, DIMS, LEVELS>(simd, sub, &found.codes);
    let again = S::mask32s::from_bitmask(simd, again) & sum_q2.simd_gt(zero);
    found.scale = again.select(sum_qx / sum_q2, found.scale);
    wild & active
}

#[inline(always)]
fn choice<S: Simd, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    recipe: &Recipe<SUB, DIMS, LEVELS>,
    found: &Found<S>,
    lane: usize,
) -> Choice {
    if found.present >> lane & 1 == 0 {
        return Choice::default();
    }
    let codes = std::array::from_fn(|group| found.codes[group].as_slice()[lane] as u16);
    let signs = std::array::from_fn(|eight| found.signs[eight].as_slice()[lane] as u8);
    recipe.choice(found.scale.as_slice()[lane], codes, signs)
}
