//! The meaning of Q6_K.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16},
    fit,
    round::nearest_int,
};

pub const ELEMS: usize = 256;
pub const BYTES: usize = 210;

pub const SUBS: usize = 16;
pub const SUB_ELEMS: usize = ELEMS / SUBS;

/// Encodes a block. Importance weights are used directly; without them, squares are the weights.
#[inline(never)]
pub fn encode(values: &[f32; ELEMS], importance: Option<&[f32; ELEMS]>, block: &mut [u8; BYTES]) {
    let mut levels = [0; ELEMS];
    let mut scales = [0.0; SUBS];
    for sub in 0..SUBS {
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        let weights = match importance {
            None => x.map(|x| x * x),
            Some(importance) => *array_at(importance, sub * SUB_ELEMS),
        };
        scales[sub] = fit::signed(x, &weights, 32, array_at_mut(&mut levels, sub * SUB_ELEMS));
    }
    let (max_scale, magnitude) = fit::largest(&scales);
    if magnitude < fit::SMALLEST_GROUP {
        *block = [0; BYTES];
        return;
    }
    // Scales become signed bytes, the one of largest magnitude -128.
    let inv_scale = -128.0 / max_scale;
    let scale = put_f16(block, 208, 1.0 / inv_scale);
    for sub in 0..SUBS {
        let sub_level = nearest_int(inv_scale * scales[sub]).min(127) as i8;
        block[192 + sub] = sub_level as u8;
        // Levels are rounded again with the scale that a reader will see.
        let sub_scale = scale * f32::from(sub_level);
        if sub_scale == 0.0 {
            continue;
        }
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        *array_at_mut::<SUB_ELEMS, _>(&mut levels, sub * SUB_ELEMS) =
            x.map(|x| (nearest_int(x / sub_scale).clamp(-32, 31) + 32) as u8);
    }
    put_levels(&levels, block);
}

#[inline(always)]
pub fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
    for (half, levels) in levels.as_chunks::<128>().0.iter().enumerate() {
        // The low 4 bits of two quarters in a byte, then the upper 2 bits of four.
        *array_at_mut::<64, _>(block, 64 * half) =
            std::array::from_fn(|i| (levels[i] & 0x0f) | levels[i + 64] << 4);
        *array_at_mut::<32, _>(block, 128 + 32 * half) = std::array::from_fn(|i| {
            let high = |quarter: usize| levels[i + 32 * quarter] >> 4 << (2 * quarter);
            high(0) | high(1) | high(2) | high(3)
        });
    }
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 208);
    for (sub, values) in values.as_chunks_mut::<SUB_ELEMS>().0.iter_mut().enumerate() {
        let sub_scale = scale * f32::from(block[192 + sub] as i8);
        let (half, quarter, side) = (sub / 8, sub % 8 / 2, sub % 2);
        let low: &[u8; SUB_ELEMS] = array_at(block, 64 * half + 32 * (quarter % 2) + 16 * side);
        let high: &[u8; SUB_ELEMS] = array_at(block, 128 + 32 * half + 16 * side);
        *values = std::array::from_fn(|i| {
            let level = (low[i] >> (quarter / 2 * 4) & 0x0f) | (high[i] >> (2 * quarter) & 3) << 4;
            sub_scale * (i32::from(level) - 32) as f32
        });
    }
}
