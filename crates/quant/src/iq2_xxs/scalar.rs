//! IQ2_XXS, plainly.

use crate::{
    block::{put_f16, put_u32},
    fit,
    grids::Codebook,
    iq_fit::{
        self, SUPER,
        lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted, max_scale},
    },
};

pub const SUB: usize = 32;
pub const N_SUBS: usize = SUPER / SUB;

/// Search of this type.
///
/// Source: `quantize_row_iq2_xxs_impl` in `ggml/src/ggml-quants.c`.
pub fn recipe() -> Recipe<SUB, 8, 4> {
    let codebook = Codebook::iq2_xxs();
    Recipe {
        lattice: Lattice { codebook, n_steps: 6, step: 0.1, refit: Refit::All },
        sigma_factor: 1.0,
        unweighted: Unweighted::Squares,
        even: true,
        smallest: fit::SMALLEST_GROUP,
        start: Start::Fitted,
    }
}

/// Writes the result of the search.
#[inline(always)]
pub fn pack(codebook: &Codebook, choices: &[Choice; N_SUBS], block: &mut [u8; super::BYTES]) {
    *block = [0; super::BYTES];
    let max_scale = max_scale(choices);
    if max_scale == 0.0 {
        return;
    }
    // A scale is `d * (2 l + 1)` with `l` of 4 bits, so the largest is 31 steps.
    let d = max_scale / 31.0;
    put_f16(block, 0, d);
    let id = 1.0 / d;
    for (at, choice) in choices.iter().enumerate() {
        let mut words = [0u32; 2];
        if choice.present {
            for group in 0..4 {
                words[0] |= u32::from(codebook.index(choice.codes[group])) << (8 * group);
                words[1] |= u32::from(choice.signs[group]) << (7 * group);
            }
        }
        let scale = iq_fit::odd_scale(id, choice.scale, 15);
        put_u32(block, 2 + 8 * at, words[0]);
        put_u32(block, 6 + 8 * at, words[1] | u32::from(scale) << 28);
    }
}
