//! IQ3_XXS, plainly.

use crate::{
    block::{put_f16, put_u32},
    grids::Codebook,
    iq_fit::{
        self, SUPER,
        lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted, max_scale},
    },
};

pub const SUB: usize = 32;
pub const N_SUBS: usize = SUPER / SUB;

/// A sub-block with a smaller largest magnitude counts as zero (`GROUP_MAX_EPS_IQ3_XXS`).
const SMALLEST_GROUP: f32 = 1e-8;

/// Search of this type.
///
/// Source: `quantize_row_iq3_xxs_impl` in `ggml/src/ggml-quants.c`.
pub fn recipe() -> Recipe<SUB, 4, 8> {
    let codebook = Codebook::iq3_xxs();
    Recipe {
        lattice: Lattice { codebook, n_steps: 15, step: 0.2, refit: Refit::OffGrid },
        sigma_factor: 2.0,
        unweighted: Unweighted::Squares,
        even: true,
        smallest: SMALLEST_GROUP,
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
    let d = max_scale / 31.0;
    // `d` was used to find the scales' levels; the reference states the factor without derivation.
    put_f16(block, 0, d * 1.0125);
    let id = 1.0 / d;
    for (at, choice) in choices.iter().enumerate() {
        let mut word = u32::from(iq_fit::odd_scale(id, choice.scale, 15)) << 28;
        if choice.present {
            for (index, &code) in block[2 + 8 * at..][..8].iter_mut().zip(&choice.codes) {
                *index = codebook.index(code) as u8;
            }
            for (group, signs) in choice.signs.into_iter().enumerate() {
                word |= u32::from(signs) << (7 * group);
            }
        }
        put_u32(block, 66 + 4 * at, word);
    }
}
