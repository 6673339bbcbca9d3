//! IQ2_S, plainly.

use crate::{
    Level, Rows,
    block::{self, f16_at, put_f16},
    fit,
    grids::{CodeBook, IQ2_S_VALUES},
    iq_fit::{
        self, SUPER,
        lattice::{Lattice, Magnitudes, Refit},
    },
};

/// Elements in a sub-block.
const SUB: usize = 16;

/// Below this largest magnitude a sub-block counts as zero (`GROUP_MAX_EPS_IQ2_S`).
const SMALLEST_GROUP: f32 = 1e-8;

/// Encodes rows.
pub fn encode(_: Level, rows: Rows<'_>, out: &mut [u8]) {
    let search =
        Lattice::<SUB, 8, 4> { book: CodeBook::iq2_s(), n_steps: 9, step: 0.1, refit: Refit::OffGrid };
    iq_fit::encode_blocks(rows, out, |values, importance, block| {
        encode_block(&search, values, importance, block);
    });
}

/// Source: `quantize_row_iq2_s_impl` in `ggml/src/ggml-quants.c`.
fn encode_block(
    search: &Lattice<SUB, 8, 4>,
    values: &[f32; SUPER],
    importance: Option<&[f32; SUPER]>,
    block: &mut [u8; super::BYTES],
) {
    *block = [0; super::BYTES];
    let sigma2 = 2.0 * fit::sum_of_squares(values) / SUPER as f32;
    let mut scales = [0.0f32; 16];
    let mut max_scale = 0.0;
    for (at, values) in values.as_chunks::<SUB>().0.iter().enumerate() {
        let weights = match importance {
            Some(importance) => fit::importance_weights(values, &importance.as_chunks::<SUB>().0[at], sigma2),
            None => values.map(|value| 0.25 * sigma2 + value * value),
        };
        let mut sub = Magnitudes::new(values, weights);
        let max = sub.max();
        if max < SMALLEST_GROUP {
            continue;
        }
        let mut found = search.search(&sub, max / 5.0, max);
        found.make_positive(&mut sub.signs, 255);
        for half in 0..2 {
            let group = 2 * at + half;
            let index = search.book.index(found.codes[half]);
            block[2 + group] = index as u8;
            block[34 + group] = sub.signs[half];
            block[66 + group / 4] |= ((index >> 8) as u8) << (2 * (group % 4));
        }
        scales[at] = found.scale;
        max_scale = iq_fit::larger(max_scale, found.scale);
    }
    if max_scale == 0.0 {
        return;
    }
    let d = max_scale / 31.0;
    put_f16(block, 0, d * 0.9875);
    let id = 1.0 / d;
    for (byte, scales) in block[74..].iter_mut().zip(scales.as_chunks::<2>().0) {
        *byte = iq_fit::odd_scale(id, scales[0], 15) | iq_fit::odd_scale(id, scales[1], 15) << 4;
    }
}

/// Decodes blocks.
pub fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    block::decode_blocks(blocks, out, |block: &[u8; super::BYTES], values: &mut [f32; SUPER]| {
        let d = f16_at(block, 0);
        for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let nibbles = block[74 + group / 4];
            let nibble = if group / 2 % 2 == 0 { nibbles & 15 } else { nibbles >> 4 };
            let scale = d * (0.5 + f32::from(nibble)) * 0.25;
            let high = usize::from(block[66 + group / 4] >> (2 * (group % 4)) & 3);
            let point = IQ2_S_VALUES[usize::from(block[2 + group]) | high << 8];
            iq_fit::signed_values(scale, point, block[34 + group], values);
        }
    });
}
