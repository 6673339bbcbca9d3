//! IQ4_NL, plainly.

use crate::{
    block::{f16_at, put_f16},
    fit,
    grids::IQ4_VALUES,
    iq_fit::nonlinear::{self, SUB},
};

/// Encodes a block.
///
/// Source: `quantize_iq4_nl`, `quantize_row_iq4_nl_impl` in `ggml/src/ggml-quants.c`.
pub fn encode(values: &[f32; SUB], importance: Option<&[f32; SUB]>, block: &mut [u8; super::BYTES]) {
    let sigma2 = fit::sum_of_squares(values) * (2.0 / SUB as f32);
    let scale = nonlinear::sub_scale(values, &nonlinear::weights(values, importance, sigma2));
    let id = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    put_f16(block, 0, scale);
    nonlinear::pack(&values.map(|value| nonlinear::nearest_index(id * value)), &mut block[2..]);
}

#[inline(always)]
pub fn decode(block: &[u8; super::BYTES], values: &mut [f32; SUB]) {
    let d = f16_at(block, 0);
    for (i, byte) in block[2..].iter().enumerate() {
        values[i] = d * f32::from(IQ4_VALUES[usize::from(byte & 15)]);
        values[i + 16] = d * f32::from(IQ4_VALUES[usize::from(byte >> 4)]);
    }
}
