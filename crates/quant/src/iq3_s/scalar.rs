//! IQ3_S, plainly.

use crate::{
    block::put_f16,
    grids::Codebook,
    iq_fit::{
        SUPER,
        lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted, max_scale, put_odd_scales},
    },
};

pub const SUB: usize = 32;
pub const N_SUBS: usize = SUPER / SUB;

/// Search of this type.
///
/// Source: `quantize_row_iq3_s_impl` in `ggml/src/ggml-quants.c`.
pub fn recipe() -> Recipe<SUB, 4, 8> {
    let codebook = Codebook::iq3_s();
    Recipe {
        lattice: Lattice { codebook, n_steps: 9, step: 0.2, refit: Refit::AllIfAnyOff },
        sigma_factor: 2.0,
        unweighted: Unweighted::Squares,
        even: false,
        smallest: f32::from_bits(1),
        start: Start::Largest,
    }
}

/// Writes the result of the search.
///
/// After a sub-block of zeros, the reference does not advance its position: the indices and signs of later
/// sub-blocks are stored one place too early, while their scales and high bits are in place, so such a
/// super-block decodes incorrectly. Bytes must be equal, so this does the same.
#[inline(always)]
pub fn pack(codebook: &Codebook, choices: &[Choice; N_SUBS], block: &mut [u8; super::BYTES]) {
    *block = [0; super::BYTES];
    let present = choices.iter().enumerate().filter(|(_, choice)| choice.present);
    for (place, (at, choice)) in present.enumerate() {
        for (group, &code) in choice.codes.iter().enumerate() {
            let index = codebook.index(code);
            block[2 + 8 * place + group] = index as u8;
            block[66 + at] |= ((index >> 8) as u8) << group;
        }
        block[74 + 4 * place..][..4].copy_from_slice(&choice.signs);
    }
    let max_scale = max_scale(choices);
    if max_scale == 0.0 {
        return;
    }
    let d = max_scale / 31.0;
    // `d` was used to find the scales' levels; the reference states the factor without derivation.
    put_f16(block, 0, d * 1.033);
    put_odd_scales(1.0 / d, choices, &mut block[106..]);
}
