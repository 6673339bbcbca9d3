//! IQ3_S, plainly.

use crate::{
    Level, Rows,
    block::{self, f16_at, put_f16},
    fit,
    grids::{CodeBook, IQ3_S_VALUES},
    iq_fit::{
        self, SUPER,
        lattice::{Lattice, Magnitudes, Refit},
    },
};

/// Elements in a sub-block.
const SUB: usize = 32;

/// Encodes rows.
pub fn encode(_: Level, rows: Rows<'_>, out: &mut [u8]) {
    let search =
        Lattice::<SUB, 4, 8> { book: CodeBook::iq3_s(), n_steps: 9, step: 0.2, refit: Refit::AllIfAnyOff };
    iq_fit::encode_blocks(rows, out, |values, importance, block| {
        encode_block(&search, values, importance, block);
    });
}

/// Where a sub-block is all zeros, the reference does not step over its place: the indices and signs of the
/// sub-blocks after it land one place too early, while their scales and high bits stay where they belong, so
/// such a super-block decodes to something else. Its bytes are the contract, so this does the same.
///
/// Source: `quantize_row_iq3_s_impl` in `ggml/src/ggml-quants.c`.
fn encode_block(
    search: &Lattice<SUB, 4, 8>,
    values: &[f32; SUPER],
    importance: Option<&[f32; SUPER]>,
    block: &mut [u8; super::BYTES],
) {
    *block = [0; super::BYTES];
    let sigma2 = 2.0 * fit::sum_of_squares(values) / SUPER as f32;
    let mut scales = [0.0f32; 8];
    let mut max_scale = 0.0;
    let mut place = 0;
    for (at, values) in values.as_chunks::<SUB>().0.iter().enumerate() {
        let weights = match importance {
            Some(importance) => fit::importance_weights(values, &importance.as_chunks::<SUB>().0[at], sigma2),
            None => values.map(|value| value * value),
        };
        let mut sub = Magnitudes::new(values, weights);
        let max = sub.max();
        if max == 0.0 {
            continue;
        }
        let mut found = search.search(&sub, max / 15.0, max);
        found.make_positive(&mut sub.signs, 255);
        for (group, &code) in found.codes.iter().enumerate() {
            let index = search.book.index(code);
            block[2 + 8 * place + group] = index as u8;
            block[66 + at] |= ((index >> 8) as u8) << group;
        }
        block[74 + 4 * place..][..4].copy_from_slice(&sub.signs);
        place += 1;
        scales[at] = found.scale;
        max_scale = iq_fit::larger(max_scale, found.scale);
    }
    if max_scale == 0.0 {
        return;
    }
    let d = max_scale / 31.0;
    put_f16(block, 0, d * 1.033);
    let id = 1.0 / d;
    for (byte, scales) in block[106..].iter_mut().zip(scales.as_chunks::<2>().0) {
        *byte = iq_fit::odd_scale(id, scales[0], 15) | iq_fit::odd_scale(id, scales[1], 15) << 4;
    }
}

/// Decodes blocks.
pub fn decode(_: Level, blocks: &[u8], out: &mut [f32]) {
    block::decode_blocks(blocks, out, |block: &[u8; super::BYTES], values: &mut [f32; SUPER]| {
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
    });
}
