//! The search of IQ2 and IQ3: one scale for a sub-block whose groups of magnitudes must be points of a codebook.

use super::{SUPER, larger, nearest_point, odd_scale};
use crate::{
    Rows,
    block::encode_rows,
    fit,
    grids::{Codebook, Place},
    round::nearest_int,
};

/// Search of a format for the sub-blocks of a super-block.
#[derive(Debug, Clone, Copy)]
pub struct Recipe<const SUB: usize, const DIMS: usize, const LEVELS: usize> {
    pub lattice: Lattice<SUB, DIMS, LEVELS>,
    /// Power-of-two factor of the mean square, which is combined with importance.
    pub sigma_factor: f32,
    /// Weights without importance data.
    pub unweighted: Unweighted,
    /// True if the number of negative signs in eight elements must be even.
    pub even: bool,
    /// A sub-block with a smaller largest magnitude counts as zero.
    pub smallest: f32,
    pub start: Start,
}

/// The weights of a search without importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unweighted {
    Squares,
    /// The squares plus a quarter of their mean (times the factor of the recipe).
    SquaresAndMean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the best scale without a grid, with one additional level.
    Fitted,
    /// With the largest magnitude on the top level.
    Largest,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Choice {
    /// False if everything is (nearly) zero.
    pub present: bool,
    /// The scale, not negative.
    pub scale: f32,
    /// The codes, all in the codebook; the first `SUB / DIMS` count.
    pub codes: [u16; 8],
    /// The signs, as the format stores them.
    pub signs: [u8; 4],
}

impl<const SUB: usize, const DIMS: usize, const LEVELS: usize> Recipe<SUB, DIMS, LEVELS> {
    /// Encodes rows; `pack` writes the choices of a block.
    pub fn encode<const N_SUBS: usize, const B: usize>(
        &self,
        rows: Rows<'_>,
        out: &mut [u8],
        pack: impl Fn(&Codebook, &[Choice; N_SUBS], &mut [u8; B]),
    ) {
        encode_rows(rows, out, |values, importance, block| {
            self.encode_block(values, importance, block, &pack);
        });
    }

    /// Encodes a block; never inlined, because the lane kernel calls it only for the few blocks that it
    /// cannot encode.
    #[inline(never)]
    pub fn encode_block<const N_SUBS: usize, const B: usize>(
        &self,
        values: &[f32; SUPER],
        importance: Option<&[f32; SUPER]>,
        block: &mut [u8; B],
        pack: &impl Fn(&Codebook, &[Choice; N_SUBS], &mut [u8; B]),
    ) {
        pack(self.lattice.codebook, &self.search(values, importance), block);
    }

    /// Searches all sub-blocks of a super-block.
    #[inline(always)]
    pub fn search<const N_SUBS: usize>(
        &self,
        values: &[f32; SUPER],
        importance: Option<&[f32; SUPER]>,
    ) -> [Choice; N_SUBS] {
        const { assert!(N_SUBS * SUB == SUPER) };
        // `w = importance * sqrt(sigma2 + x^2)`, where sigma2 is a multiple of the mean square of the
        // super-block.
        let sigma2 = self.sigma_factor * fit::sum_of_squares(values) / SUPER as f32;
        let mut choices = [Choice::default(); N_SUBS];
        for (at, (values, choice)) in values.as_chunks::<SUB>().0.iter().zip(&mut choices).enumerate() {
            let weights = match (importance, self.unweighted) {
                (Some(importance), _) => {
                    fit::importance_weights(values, &importance.as_chunks::<SUB>().0[at], sigma2)
                }
                (None, Unweighted::Squares) => values.map(|value| value * value),
                (None, Unweighted::SquaresAndMean) => values.map(|value| 0.25 * sigma2 + value * value),
            };
            let mut sub = Magnitudes::new(values, weights);
            if self.even {
                sub = sub.make_even(values);
            }
            let max = sub.max();
            // Such a sub-block is absent: scale 0 and no point.
            if max < self.smallest {
                continue;
            }
            // A fit with levels 0 to 4; three of its steps are the value to map to the top level (`eff_max`
            // of the reference). If no candidate is better, this scale stays.
            let (start, anchor) = match self.start {
                Start::Fitted => {
                    let start = fit::unsigned(&sub.values, &sub.weights, 4, &mut [0; SUB]);
                    (start, start * 3.0)
                }
                Start::Largest => (max / (2 * Lattice::<SUB, DIMS, LEVELS>::TOP + 1) as f32, max),
            };
            // The fit found no positive scale.
            if anchor <= 0.0 {
                continue;
            }
            let found = self.lattice.search(&sub, start, anchor);
            *choice = self.choice(found.scale, found.codes, sub.signs);
        }
        choices
    }

    /// A choice; a negative scale becomes positive and all signs change, because the scale is stored unsigned.
    #[inline(always)]
    pub fn choice(&self, scale: f32, codes: [u16; 8], signs: [u8; 4]) -> Choice {
        // With even parity seven signs are stored; all eight change, so the parity stays even.
        let mask = if self.even { 127 } else { 255 };
        if scale < 0.0 {
            Choice { present: true, scale: -scale, codes, signs: signs.map(|signs| !signs & mask) }
        } else {
            Choice { present: true, scale, codes, signs }
        }
    }
}

/// Largest scale of a super-block, computed like in the reference; 0 if there is no scale.
#[inline(always)]
pub fn max_scale(choices: &[Choice]) -> f32 {
    let present = choices.iter().filter(|choice| choice.present);
    present.fold(0.0, |max, choice| larger(max, choice.scale))
}

/// Writes the scales of sub-blocks as nibbles `l` of `d * (2 l + 1)`, two per byte, with `id` = `1 / d`.
#[inline(always)]
pub fn put_odd_scales(id: f32, choices: &[Choice], bytes: &mut [u8]) {
    for (byte, choices) in bytes.iter_mut().zip(choices.as_chunks::<2>().0) {
        let nibbles = choices.map(|choice| odd_scale(id, choice.scale, 15));
        *byte = nibbles[0] | nibbles[1] << 4;
    }
}

/// A sub-block, prepared for the search.
#[derive(Debug, Clone, Copy)]
pub struct Magnitudes<const SUB: usize> {
    /// (SUB) magnitudes; one of a group is negative if a sign had to be flipped for parity.
    pub values: [f32; SUB],
    /// (SUB) weights.
    pub weights: [f32; SUB],
    /// (SUB) square roots of the weights, for choosing among neighbors.
    pub roots: [f32; SUB],
    /// One bit per negative value, one byte per 8 elements.
    pub signs: [u8; 4],
}

impl<const SUB: usize> Magnitudes<SUB> {
    /// Splits values into magnitudes and signs.
    pub fn new(source: &[f32; SUB], weights: [f32; SUB]) -> Self {
        let mut split = Magnitudes { values: [0.0; SUB], weights, roots: [0.0; SUB], signs: [0; 4] };
        for i in 0..SUB {
            let positive = source[i] >= 0.0;
            split.values[i] = if positive { source[i] } else { -source[i] };
            split.roots[i] = weights[i].sqrt();
            split.signs[i / 8] |= u8::from(!positive) << (i % 8);
        }
        split
    }

    /// Makes the number of negative signs in each 8 even, at the least cost: the element with the least
    /// `weight * value^2` (the first of equals) changes its sign and keeps a negative magnitude. Keeps only
    /// the seven low sign bits, which then suffice.
    pub fn make_even(mut self, source: &[f32; SUB]) -> Self {
        for group in 0..SUB / 8 {
            let cost = |i: usize| self.weights[8 * group + i] * source[8 * group + i] * source[8 * group + i];
            if self.signs[group].count_ones() % 2 == 1 {
                let (mut least, mut at) = (cost(0), 0);
                for i in 1..8 {
                    let cost = cost(i);
                    if cost < least {
                        (least, at) = (cost, i);
                    }
                }
                self.values[8 * group + at] = -self.values[8 * group + at];
                self.signs[group] ^= 1 << at;
            }
            self.signs[group] &= 127;
        }
        self
    }

    pub fn max(&self) -> f32 {
        self.values[1..].iter().fold(self.values[0], |max, &value| larger(max, value))
    }
}

/// Groups that are placed again once the best scale is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refit {
    All,
    /// All groups, if any was off the grid.
    AllIfAnyOff,
    /// Groups that were off the grid.
    OffGrid,
}

/// A sub-block's search: `SUB` elements in groups of `DIMS` with room for `LEVELS` (a power of two) levels.
#[derive(Debug, Clone, Copy)]
pub struct Lattice<const SUB: usize, const DIMS: usize, const LEVELS: usize> {
    pub codebook: &'static Codebook,
    /// Candidate scales run from `-n_steps` to `n_steps`.
    pub n_steps: i32,
    /// Change of the largest magnitude's divisor per step.
    pub step: f32,
    /// Groups that are placed again at the end.
    pub refit: Refit,
}

/// A scale and the codes of a sub-block's groups.
#[derive(Debug, Clone, Copy)]
pub struct Fit {
    /// The scale; negative in rare cases, see [`Recipe::choice`].
    pub scale: f32,
    /// The codes, all in the codebook; the first `SUB / DIMS` count.
    pub codes: [u16; 8],
}

/// Contributions of the elements of a sub-block to `sum w*x*q` and `sum w*q*q`, for each level.
type Terms<const SUB: usize, const LEVELS: usize> = [[[f32; 2]; LEVELS]; SUB];

impl<const SUB: usize, const DIMS: usize, const LEVELS: usize> Lattice<SUB, DIMS, LEVELS> {
    /// The highest level in use: IQ2 has three, IQ3 eight.
    pub const TOP: i32 = if LEVELS == 4 { 2 } else { 7 };
    pub const BITS: usize = LEVELS.trailing_zeros() as usize;
    const ODD: [f32; LEVELS] = {
        let mut odd = [0.0; LEVELS];
        let mut level = 0;
        while level < LEVELS {
            odd[level] = (2 * level + 1) as f32;
            level += 1;
        }
        odd
    };

    /// The search. `anchor` is the value that the middle candidate maps to the top level, `scale` the result
    /// if no candidate is accepted.
    ///
    /// Source: the loops over `is` and the code after them in `quantize_row_iq2_xxs_impl`, `..._iq2_xs_impl`,
    /// `..._iq2_s_impl`, `..._iq3_xxs_impl` and `..._iq3_s_impl`, `ggml/src/ggml-quants.c`.
    #[inline(always)]
    pub fn search(&self, sub: &Magnitudes<SUB>, scale: f32, anchor: f32) -> Fit {
        let n_groups = SUB / DIMS;
        // Minimizes `sum w (x - d q)^2` over the SUB elements, with each group of `q` a point of odd numbers
        // `2 l + 1`. For given points it is least at `d = sum w x q / sum w q^2`, and the best points have
        // the largest `(sum w x q)^2 / sum w q^2`.
        let terms = Self::terms(sub);
        let mut fit = Fit { scale, codes: [0; 8] };
        // Result if no candidate is accepted, with the reference's initial flags.
        let mut off_grid = [self.refit == Refit::AllIfAnyOff; 8];
        let mut best = 0.0;
        for is in -self.n_steps..=self.n_steps {
            // The anchor is mapped to the top level plus some steps.
            let id = ((2 * Self::TOP + 1) as f32 + is as f32 * self.step) / anchor;
            let scale = 1.0 / id;
            let mut codes = [0; 8];
            let mut off = [false; 8];
            for group in 0..n_groups {
                (codes[group], off[group]) = self.place(sub, group, id, scale);
            }
            let (sum_qx, sum_q2) = Self::sums(&terms, &codes);
            if sum_q2 > 0.0 && sum_qx * sum_qx > best * sum_q2 {
                fit = Fit { scale: sum_qx / sum_q2, codes };
                best = fit.scale * sum_qx;
                off_grid = off;
            }
        }
        // The points were found for the scale of their candidate. If the type requires it, they are found
        // again for the fitted scale, which is then fitted again.
        let any_off = off_grid[..n_groups].contains(&true);
        if fit.scale > 0.0 && (any_off || self.refit == Refit::All) {
            let id = 1.0 / fit.scale;
            for group in 0..n_groups {
                if off_grid[group] || self.refit != Refit::OffGrid {
                    fit.codes[group] = self.place(sub, group, id, fit.scale).0;
                }
            }
            let (sum_qx, sum_q2) = Self::sums(&terms, &fit.codes);
            if sum_q2 > 0.0 {
                fit.scale = sum_qx / sum_q2;
            }
        }
        fit
    }

    /// The code of one group at one scale, and whether rounding left the grid.
    #[inline(always)]
    fn place(&self, sub: &Magnitudes<SUB>, group: usize, id: f32, scale: f32) -> (u16, bool) {
        let values = &sub.values.as_chunks::<DIMS>().0[group];
        let mut code = 0;
        for (dim, value) in values.iter().enumerate() {
            // The `l` whose `2 l + 1` is nearest to the scaled value.
            let level = nearest_int(0.5 * (id * value - 1.0)).clamp(0, Self::TOP);
            code |= (level as u16) << (Self::BITS * dim);
        }
        match self.codebook.place(code) {
            Place::OnGrid => (code, false),
            Place::OffGrid(candidates) => {
                let roots = &sub.roots.as_chunks::<DIMS>().0[group];
                (nearest_point(candidates, values, roots, scale, &Self::ODD), true)
            }
        }
    }

    /// All terms of the possible sums.
    #[inline(always)]
    fn terms(sub: &Magnitudes<SUB>) -> Terms<SUB, LEVELS> {
        let mut terms = [[[0.0; 2]; LEVELS]; SUB];
        for i in 0..SUB {
            let weight = sub.weights[i];
            for level in 0..LEVELS {
                let q = Self::ODD[level];
                terms[i][level] = [weight * sub.values[i] * q, weight * q * q];
            }
        }
        terms
    }

    /// `sum w*x*q` and `sum w*q*q` of these codes.
    #[inline(always)]
    fn sums(terms: &Terms<SUB, LEVELS>, codes: &[u16; 8]) -> (f32, f32) {
        let mut sums = [0.0; 2];
        for (terms, &code) in terms.as_chunks::<DIMS>().0.iter().zip(codes) {
            for (dim, terms) in terms.iter().enumerate() {
                let term = terms[usize::from(code >> (Self::BITS * dim)) & (LEVELS - 1)];
                sums[0] += term[0];
                sums[1] += term[1];
            }
        }
        (sums[0], sums[1])
    }
}

/// The weighted squared distance of a point, in the order of operations of [`nearest_point`].
#[inline(always)]
pub fn distance<const DIMS: usize, const LEVELS: usize>(
    code: u16,
    values: &[f32; DIMS],
    weights: &[f32; DIMS],
    scale: f32,
) -> f32 {
    let mut distance = 0.0;
    for dim in 0..DIMS {
        let level = usize::from(code >> (LEVELS.trailing_zeros() as usize * dim)) & (LEVELS - 1);
        let diff = scale * (2 * level + 1) as f32 - values[dim];
        distance += weights[dim] * diff * diff;
    }
    distance
}
