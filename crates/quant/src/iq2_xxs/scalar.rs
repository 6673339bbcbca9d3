//! IQ2_XXS, plainly.

use crate::{
    Level, Rows,
    block::{self, f16_at, put_f16, put_u32, u32_at},
    fit,
    grids::{CodeBook, IQ2_XXS_VALUES, even_signs},
    iq_fit::{
        self, SUPER,
        lattice::{Lattice, Magnitudes, Refit},
    },
};

/// Elements in a sub-block.
const SUB: usize = 32;

/// Encodes rows.
pub fn encode(_: Level, rows: Rows<'_>, out: &mut [u8]) {
    let search = Lattice::<SUB, 8, 4> { book: CodeBook::iq2_xxs(), n_steps: 6, step: 0.1, refit: Refit::All };
    iq_fit::encode_weighted_blocks(rows, out, |values, importance, block| {
        encode_block(&search, values, importance, block);
    });
}

/// Source: `quantize_row_iq2_xxs_impl` in `ggml/src/ggml-quants.c`.
fn encode_block(
    search: &Lattice<SUB, 8, 4>,
    values: &[f32; SUPER],
    importance: &[f32; SUPER],
    block: &mut [u8; super::BYTES],
) {
    *block = [0; super::BYTES];
    let sigma2 = fit::sum_of_squares(values) / SUPER as f32;
    let mut words = [[0u32; 2]; 8];
    let mut scales = [0.0f32; 8];
    let mut max_scale = 0.0;
    let subs = values.as_chunks::<SUB>().0.iter().zip(importance.as_chunks::<SUB>().0);
    for (at, (values, importance)) in subs.enumerate() {
        let weights = fit::importance_weights(values, importance, sigma2);
        let mut sub = Magnitudes::new(values, weights).make_even(values);
        if sub.max() < fit::SMALLEST_GROUP {
            continue;
        }
        // The start is the best scale without a grid, with one level more than there is.
        let start = fit::unsigned(&sub.values, &sub.weights, 4, &mut [0; SUB]);
        let anchor = start * 3.0;
        if anchor <= 0.0 {
            continue;
        }
        let mut found = search.search(&sub, start, anchor);
        found.make_positive(&mut sub.signs, 127);
        for group in 0..4 {
            words[at][0] |= u32::from(search.book.index(found.codes[group])) << (8 * group);
            words[at][1] |= u32::from(sub.signs[group]) << (7 * group);
        }
        scales[at] = found.scale;
        max_scale = iq_fit::larger(max_scale, found.scale);
    }
    if max_scale == 0.0 {
        return;
    }
    let d = max_scale / 31.0;
    put_f16(block, 0, d);
    let id = 1.0 / d;
    for (at, words) in words.into_iter().enumerate() {
        let scale = iq_fit::odd_scale(id, scales[at], 15);
        put_u32(block, 2 + 8 * at, words[0]);
        put_u32(block, 6 + 8 * at, words[1] | u32::from(scale) << 28);
    }
}

/// Decodes blocks.
pub fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    block::decode_blocks(blocks, out, |block: &[u8; super::BYTES], values: &mut [f32; SUPER]| {
        let d = f16_at(block, 0);
        for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let words = 2 + group / 4 * 8;
            let word = u32_at(block, words + 4);
            let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
            let signs = even_signs((word >> (7 * (group % 4))) as u8);
            let point = IQ2_XXS_VALUES[usize::from(block[words + group % 4])];
            iq_fit::signed_values(scale, point, signs, values);
        }
    });
}
