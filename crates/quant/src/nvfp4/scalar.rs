//! The meaning of NVFP4.

use crate::{
    block::{array_at, array_at_mut},
    e2m1,
    fit::largest,
};

pub const ELEMS: usize = 64;
pub const BYTES: usize = 36;

pub const SUBS: usize = 4;
const SUB_ELEMS: usize = ELEMS / SUBS;

/// Encodes a block: in each sub-block the largest magnitude becomes 6, the largest e2m1 value.
///
/// `nearest` is [`e2m1::nearest`] or equal to it.
#[inline(always)]
pub fn encode(
    values: &[f32; ELEMS],
    block: &mut [u8; BYTES],
    nearest: impl Fn(&[f32; SUB_ELEMS], f32) -> [u8; SUB_ELEMS],
) {
    for sub in 0..SUBS {
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        let scale = ue4m3_from_f32(largest(x).1 / 6.0);
        block[sub] = scale;
        let levels = nearest(x, half_of_ue4m3(scale));
        *array_at_mut::<8, _>(block, SUBS + 8 * sub) =
            std::array::from_fn(|i| levels[i] | levels[i + 8] << 4);
    }
}

/// The ue4m3 number nearest to `value`, halves away from zero; at most 448, and 0 for values that are not
/// positive.
#[inline(always)]
fn ue4m3_from_f32(value: f32) -> u8 {
    if value.is_nan() || value <= 0.0 {
        return 0;
    }
    let value = if value > 448.0 { 448.0 } else { value };
    let bits = value.to_bits();
    // From a bias of 127 to one of 7.
    let exponent = (bits >> 23) as i32 - 127 + 7;
    if exponent <= 0 {
        // A subnormal counts steps of 2^-9.
        return ((value * 512.0 + 0.5) as i32).min(7) as u8;
    }
    // A mantissa that rounds up to 8 carries into the exponent.
    let rounded = (exponent << 3) + (bits >> 20 & 7) as i32 + (bits >> 19 & 1) as i32;
    if exponent >= 15 || rounded >= 15 << 3 { 0x7e } else { rounded as u8 }
}

/// Half of the value of a ue4m3 number, because the e2m1 values are doubled.
#[inline(always)]
pub fn half_of_ue4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(bits >> 3 & 0x0f), u32::from(bits & 7));
    if bits == 0 || bits == 0x7f {
        0.0
    } else if exponent == 0 {
        mantissa as f32 * (1.0 / 1024.0)
    } else {
        f32::from_bits((exponent + 127 - 8) << 23 | mantissa << 20)
    }
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    for (sub, values) in values.as_chunks_mut::<SUB_ELEMS>().0.iter_mut().enumerate() {
        let scale = half_of_ue4m3(block[sub]);
        let levels: &[u8; 8] = array_at(block, SUBS + 8 * sub);
        *values = std::array::from_fn(|i| {
            let level = if i < 8 { levels[i] & 0x0f } else { levels[i - 8] >> 4 };
            f32::from(e2m1::VALUES[usize::from(level)]) * scale
        });
    }
}
