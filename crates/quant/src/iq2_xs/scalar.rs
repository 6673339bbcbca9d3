//! IQ2_XS, plainly.

use crate::{
    block::{put_f16, put_u16},
    fit,
    grids::Codebook,
    iq_fit::{
        SUPER,
        lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted, max_scale, put_odd_scales},
    },
};

pub const SUB: usize = 16;
pub const N_SUBS: usize = SUPER / SUB;

/// Search of this type.
///
/// Source: `quantize_row_iq2_xs_impl` in `ggml/src/ggml-quants.c`.
pub fn recipe() -> Recipe<SUB, 8, 4> {
    let codebook = Codebook::iq2_xs();
    Recipe {
        lattice: Lattice { codebook, n_steps: 9, step: 0.1, refit: Refit::OffGrid },
        sigma_factor: 1.0,
        unweighted: Unweighted::Squares,
        even: true,
        smallest: fit::SMALLEST_GROUP,
        start: Start::Largest,
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
    for (at, choice) in choices.iter().enumerate().filter(|(_, choice)| choice.present) {
        for half in 0..2 {
            let word = codebook.index(choice.codes[half]) | u16::from(choice.signs[half]) << 9;
            put_u16(block, 2 + 2 * (2 * at + half), word);
        }
    }
    put_odd_scales(1.0 / d, choices, &mut block[66..]);
}
