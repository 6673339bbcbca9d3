//! IQ2_XXS, plainly.

use crate::{
    block::{f16_at, put_f16, put_u32, u32_at},
    fit,
    grids::{Codebook, IQ2_XXS_VALUES, even_signs},
    iq_fit::{
        self, SUPER,
        lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted, max_scale},
    },
};

/// Elements in a sub-block.
pub const SUB: usize = 32;
/// Sub-blocks in a block.
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

/// Writes what was found.
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

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; super::BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let words = 2 + group / 4 * 8;
        let word = u32_at(block, words + 4);
        // Points are stored eightfold (8, 25, 43 for 1, 3, 5), so `(2 l + 1) / 8`.
        let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
        let signs = even_signs((word >> (7 * (group % 4))) as u8);
        let point = IQ2_XXS_VALUES[usize::from(block[words + group % 4])];
        iq_fit::signed_values(scale, point, signs, values);
    }
}
