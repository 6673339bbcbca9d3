//! IQ2_XS, plainly.

use crate::{
    Level, Rows,
    block::{self, f16_at, put_f16, put_u16, u16_at},
    fit,
    grids::{CodeBook, IQ2_XS_VALUES, even_signs},
    iq_fit::{
        self, SUPER,
        lattice::{Lattice, Magnitudes, Refit},
    },
};

/// Elements in a sub-block.
const SUB: usize = 16;

/// Encodes rows.
pub fn encode(_: Level, rows: Rows<'_>, out: &mut [u8]) {
    let search =
        Lattice::<SUB, 8, 4> { book: CodeBook::iq2_xs(), n_steps: 9, step: 0.1, refit: Refit::OffGrid };
    iq_fit::encode_weighted_blocks(rows, out, |values, importance, block| {
        encode_block(&search, values, importance, block);
    });
}

/// Source: `quantize_row_iq2_xs_impl` in `ggml/src/ggml-quants.c`.
fn encode_block(
    search: &Lattice<SUB, 8, 4>,
    values: &[f32; SUPER],
    importance: &[f32; SUPER],
    block: &mut [u8; super::BYTES],
) {
    *block = [0; super::BYTES];
    let sigma2 = fit::sum_of_squares(values) / SUPER as f32;
    let mut words = [0u16; 32];
    let mut scales = [0.0f32; 16];
    let mut max_scale = 0.0;
    let subs = values.as_chunks::<SUB>().0.iter().zip(importance.as_chunks::<SUB>().0);
    for (at, (values, importance)) in subs.enumerate() {
        let weights = fit::importance_weights(values, importance, sigma2);
        let mut sub = Magnitudes::new(values, weights).make_even(values);
        let max = sub.max();
        if max < fit::SMALLEST_GROUP {
            continue;
        }
        let mut found = search.search(&sub, max / 5.0, max);
        found.make_positive(&mut sub.signs, 127);
        for group in 0..2 {
            let index = search.book.index(found.codes[group]);
            words[2 * at + group] = index | u16::from(sub.signs[group]) << 9;
        }
        scales[at] = found.scale;
        max_scale = iq_fit::larger(max_scale, found.scale);
    }
    if max_scale == 0.0 {
        return;
    }
    let d = max_scale / 31.0;
    put_f16(block, 0, d);
    for (group, word) in words.into_iter().enumerate() {
        put_u16(block, 2 + 2 * group, word);
    }
    let id = 1.0 / d;
    for (byte, scales) in block[66..].iter_mut().zip(scales.as_chunks::<2>().0) {
        *byte = iq_fit::odd_scale(id, scales[0], 15) | iq_fit::odd_scale(id, scales[1], 15) << 4;
    }
}

/// Decodes blocks.
pub fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    block::decode_blocks(blocks, out, |block: &[u8; super::BYTES], values: &mut [f32; SUPER]| {
        let d = f16_at(block, 0);
        for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let nibbles = block[66 + group / 4];
            let nibble = if group / 2 % 2 == 0 { nibbles & 15 } else { nibbles >> 4 };
            let scale = d * (0.5 + f32::from(nibble)) * 0.25;
            let word = u16_at(block, 2 + 2 * group);
            let point = IQ2_XS_VALUES[usize::from(word & 511)];
            iq_fit::signed_values(scale, point, even_signs((word >> 9) as u8), values);
        }
    });
}
