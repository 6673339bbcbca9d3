//! IQ4_XS, plainly.

use crate::{
    block::{f16_at, put_f16, put_u16, u16_at},
    fit,
    grids::IQ4_VALUES,
    iq_fit::{
        SUPER,
        nonlinear::{self, SUB},
    },
    round::nearest_int,
};

/// Encodes a block.
///
/// Source: `quantize_iq4_xs`, `quantize_row_iq4_nl_impl` in `ggml/src/ggml-quants.c`.
pub fn encode(values: &[f32; SUPER], importance: Option<&[f32; SUPER]>, block: &mut [u8; super::BYTES]) {
    *block = [0; super::BYTES];
    let sigma2 = fit::sum_of_squares(values) * (2.0 / SUPER as f32);
    let subs = values.as_chunks::<SUB>().0;
    let importance = importance.map(|importance| importance.as_chunks::<SUB>().0);
    let scales: [f32; SUPER / SUB] = std::array::from_fn(|at| {
        let importance = importance.map(|importance| &importance[at]);
        nonlinear::sub_scale(&subs[at], &nonlinear::weights(&subs[at], importance, sigma2))
    });
    let (max_scale, _) = fit::largest(&scales);
    // Scales become integers from -32, the level of the largest magnitude, to 31.
    let d = -max_scale / 32.0;
    put_f16(block, 0, d);
    let id = if d == 0.0 { 0.0 } else { 1.0 / d };
    let mut high_bits = 0u16;
    for (at, values) in subs.iter().enumerate() {
        let level = nearest_int(id * scales[at]).clamp(-32, 31);
        let scale = d * level as f32;
        let id = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let indices = values.map(|value| nonlinear::nearest_index(id * value));
        nonlinear::pack(&indices, &mut block[8 + 16 * at..][..16]);
        // Four bits are stored in a nibble, two in `high_bits`.
        let stored = (level + 32) as u16;
        high_bits |= (stored >> 4) << (2 * at);
        block[4 + at / 2] |= ((stored & 15) as u8) << (4 * (at % 2));
    }
    put_u16(block, 2, high_bits);
}

#[inline(always)]
pub fn decode(block: &[u8; super::BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    let high_bits = u16_at(block, 2);
    for (at, values) in values.as_chunks_mut::<SUB>().0.iter_mut().enumerate() {
        let low = i32::from(block[4 + at / 2] >> (4 * (at % 2)) & 15);
        let high = i32::from(high_bits >> (2 * at) & 3);
        let scale = d * (low + 16 * high - 32) as f32;
        for (i, byte) in block[8 + 16 * at..][..16].iter().enumerate() {
            values[i] = scale * f32::from(IQ4_VALUES[usize::from(byte & 15)]);
            values[i + 16] = scale * f32::from(IQ4_VALUES[usize::from(byte >> 4)]);
        }
    }
}
