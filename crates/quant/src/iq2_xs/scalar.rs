//! IQ2_XS, plainly.

use crate::{
    block::{f16_at, put_f16, put_u16, u16_at},
    fit,
    grids::{Codebook, IQ2_XS_VALUES, even_signs},
    iq_fit::{
        self, SUPER,
        lattice::{Choice, Lattice, Recipe, Refit, Start, Unweighted, max_scale},
    },
};

/// Elements in a sub-block.
pub const SUB: usize = 16;
/// Sub-blocks in a block.
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
    for (at, choice) in choices.iter().enumerate().filter(|(_, choice)| choice.present) {
        for half in 0..2 {
            let word = codebook.index(choice.codes[half]) | u16::from(choice.signs[half]) << 9;
            put_u16(block, 2 + 2 * (2 * at + half), word);
        }
    }
    let id = 1.0 / d;
    for (byte, choices) in block[66..].iter_mut().zip(choices.as_chunks::<2>().0) {
        let nibbles = choices.map(|choice| iq_fit::odd_scale(id, choice.scale, 15));
        *byte = nibbles[0] | nibbles[1] << 4;
    }
}

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; super::BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let nibbles = block[66 + group / 4];
        let nibble = if group / 2 % 2 == 0 { nibbles & 15 } else { nibbles >> 4 };
        let scale = d * (0.5 + f32::from(nibble)) * 0.25;
        let word = u16_at(block, 2 + 2 * group);
        let point = IQ2_XS_VALUES[usize::from(word & 511)];
        iq_fit::signed_values(scale, point, even_signs((word >> 9) as u8), values);
    }
}
