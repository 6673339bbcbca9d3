//! IQ3_S, plainly.

use crate::{
    block::{f16_at, put_f16},
    grids::{Codebook, IQ3_S_VALUES},
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

/// Writes what was found.
///
/// Where a sub-block is all zeros, the reference does not step over its place: the indices and signs of the
/// sub-blocks after it land one place too early, while their scales and high bits stay where they belong, so
/// such a super-block decodes to something else. Its bytes are the contract, so this does the same.
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
    // The levels of scales are found with `d`; the factor is the reference's, which does not derive it.
    put_f16(block, 0, d * 1.033);
    let id = 1.0 / d;
    for (byte, choices) in block[106..].iter_mut().zip(choices.as_chunks::<2>().0) {
        let nibbles = choices.map(|choice| iq_fit::odd_scale(id, choice.scale, 15));
        *byte = nibbles[0] | nibbles[1] << 4;
    }
}

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; super::BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let sub = group / 4;
        let nibbles = block[106 + sub / 2];
        let nibble = if sub % 2 == 0 { nibbles & 15 } else { nibbles >> 4 };
        let scale = d * f32::from(1 + 2 * nibble);
        let high_bits = usize::from(block[66 + sub] >> (2 * (group % 4)));
        let low = IQ3_S_VALUES[usize::from(block[2 + 2 * group]) | (high_bits & 1) << 8];
        let high = IQ3_S_VALUES[usize::from(block[3 + 2 * group]) | (high_bits & 2) << 7];
        iq_fit::signed_values(scale, iq_fit::join(low, high), block[74 + group], values);
    }
}
