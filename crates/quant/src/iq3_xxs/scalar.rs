//! IQ3_XXS, plainly.

use crate::{
    block::{f16_at, put_f16, put_u32, u32_at},
    grids::{Codebook, IQ3_XXS_VALUES, even_signs},
    iq_fit::{
        self, SUPER,
        lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted, max_scale},
    },
};

/// Elements in a sub-block.
pub const SUB: usize = 32;
/// Sub-blocks in a block.
pub const N_SUBS: usize = SUPER / SUB;

/// Below this largest magnitude a sub-block counts as zero (`GROUP_MAX_EPS_IQ3_XXS`).
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

/// Writes what was found.
#[inline(always)]
pub fn pack(codebook: &Codebook, choices: &[Choice; N_SUBS], block: &mut [u8; super::BYTES]) {
    *block = [0; super::BYTES];
    let max_scale = max_scale(choices);
    if max_scale == 0.0 {
        return;
    }
    let d = max_scale / 31.0;
    // The levels of scales are found with `d`; the factor is the reference's, which does not derive it.
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

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; super::BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = u32_at(block, 66 + group / 4 * 4);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
        let signs = even_signs((word >> (7 * (group % 4))) as u8);
        let low = IQ3_XXS_VALUES[usize::from(block[2 + 2 * group])];
        let high = IQ3_XXS_VALUES[usize::from(block[3 + 2 * group])];
        iq_fit::signed_values(scale, iq_fit::join(low, high), signs, values);
    }
}
