use crate::{
    block::put_f16,
    grids::Codebook,
    iq_fit::{
        SUPER,
        lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted, max_scale, put_odd_scales},
    },
};

pub const SUB: usize = 16;
pub const N_SUBS: usize = SUPER / SUB;

/// A sub-block with a smaller largest magnitude counts as zero (`GROUP_MAX_EPS_IQ2_S`).
const SMALLEST_GROUP: f32 = 1e-8;

/// Search of this type.
///
/// Source: `quantize_row_iq2_s_impl` in `ggml/src/ggml-quants.c`.
pub fn recipe() -> Recipe<SUB, 8, 4> {
    let codebook = Codebook::iq2_s();
    Recipe {
        lattice: Lattice { codebook, n_steps: 9, step: 0.1, refit: Refit::OffGrid },
        sigma_factor: 2.0,
        unweighted: Unweighted::SquaresAndMean,
        even: false,
        smallest: SMALLEST_GROUP,
        start: Start::Largest,
    }
}

/// Writes the result of the search.
#[inline(always)]
pub fn pack(codebook: &Codebook, choices: &[Choice; N_SUBS], block: &mut [u8; super::BYTES]) {
    *block = [0; super::BYTES];
    for (at, choice) in choices.iter().enumerate().filter(|(_, choice)| choice.present) {
        for half in 0..2 {
            let group = 2 * at + half;
            let index = codebook.index(choice.codes[half]);
            block[2 + group] = index as u8;
            block[34 + group] = choice.signs[half];
            block[66 + group / 4] |= ((index >> 8) as u8) << (2 * (group % 4));
        }
    }
    let max_scale = max_scale(choices);
    if max_scale == 0.0 {
        return;
    }
    let d = max_scale / 31.0;
    // `d` was used to find the scales' levels; the reference states the factor without derivation.
    put_f16(block, 0, d * 0.9875);
    put_odd_scales(1.0 / d, choices, &mut block[74..]);
}
