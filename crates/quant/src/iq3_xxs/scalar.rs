//! IQ3_XXS, plainly.

use crate::{
    Level, Rows,
    block::{self, f16_at, put_f16, put_u32, u32_at},
    fit,
    grids::{CodeBook, IQ3_XXS_VALUES, even_signs},
    iq_fit::{
        self, SUPER,
        lattice::{Lattice, Magnitudes, Refit},
    },
};

/// Elements in a sub-block.
const SUB: usize = 32;

/// Below this largest magnitude a sub-block counts as zero (`GROUP_MAX_EPS_IQ3_XXS`).
const SMALLEST_GROUP: f32 = 1e-8;

/// Encodes rows.
pub fn encode(_: Level, rows: Rows<'_>, out: &mut [u8]) {
    let search =
        Lattice::<SUB, 4, 8> { book: CodeBook::iq3_xxs(), n_steps: 15, step: 0.2, refit: Refit::OffGrid };
    iq_fit::encode_blocks(rows, out, |values, importance, block| {
        encode_block(&search, values, importance, block);
    });
}

/// Source: `quantize_row_iq3_xxs_impl` in `ggml/src/ggml-quants.c`.
fn encode_block(
    search: &Lattice<SUB, 4, 8>,
    values: &[f32; SUPER],
    importance: Option<&[f32; SUPER]>,
    block: &mut [u8; super::BYTES],
) {
    *block = [0; super::BYTES];
    let sigma2 = 2.0 * fit::sum_of_squares(values) / SUPER as f32;
    let mut indices = [0u8; 64];
    let mut words = [0u32; 8];
    let mut scales = [0.0f32; 8];
    let mut max_scale = 0.0;
    for (at, values) in values.as_chunks::<SUB>().0.iter().enumerate() {
        let weights = match importance {
            Some(importance) => fit::importance_weights(values, &importance.as_chunks::<SUB>().0[at], sigma2),
            None => values.map(|value| value * value),
        };
        let mut sub = Magnitudes::new(values, weights).make_even(values);
        let max = sub.max();
        if max < SMALLEST_GROUP {
            continue;
        }
        let mut found = search.search(&sub, max / 15.0, max);
        found.make_positive(&mut sub.signs, 127);
        for (index, &code) in indices[8 * at..][..8].iter_mut().zip(&found.codes) {
            *index = search.book.index(code) as u8;
        }
        for (group, signs) in sub.signs.into_iter().enumerate() {
            words[at] |= u32::from(signs) << (7 * group);
        }
        scales[at] = found.scale;
        max_scale = iq_fit::larger(max_scale, found.scale);
    }
    if max_scale == 0.0 {
        return;
    }
    let d = max_scale / 31.0;
    put_f16(block, 0, d * 1.0125);
    block[2..66].copy_from_slice(&indices);
    let id = 1.0 / d;
    for (at, word) in words.into_iter().enumerate() {
        let scale = iq_fit::odd_scale(id, scales[at], 15);
        put_u32(block, 66 + 4 * at, word | u32::from(scale) << 28);
    }
}

/// Decodes blocks.
pub fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    block::decode_blocks(blocks, out, |block: &[u8; super::BYTES], values: &mut [f32; SUPER]| {
        let d = f16_at(block, 0);
        for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let word = u32_at(block, 66 + group / 4 * 4);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
            let signs = even_signs((word >> (7 * (group % 4))) as u8);
            let low = IQ3_XXS_VALUES[usize::from(block[2 + 2 * group])];
            let high = IQ3_XXS_VALUES[usize::from(block[3 + 2 * group])];
            iq_fit::signed_values(scale, iq_fit::join(low, high), signs, values);
        }
    });
}
