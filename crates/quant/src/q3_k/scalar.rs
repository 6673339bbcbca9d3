//! The meaning of Q3_K.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16},
    fit,
    round::nearest_int,
    two_bits,
};

pub const ELEMS: usize = 256;
pub const BYTES: usize = 110;

pub const SUBS: usize = 16;
pub const SUB_ELEMS: usize = ELEMS / SUBS;

/// Encodes a block, with importance weights if there are any.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], importance: Option<&[f32; ELEMS]>, block: &mut [u8; BYTES]) {
    match importance {
        None => encode_plain(values, block),
        Some(importance) => encode_weighted(values, importance, block),
    }
}

/// Encodes without importance weights: the scale of largest magnitude becomes level 0 (-32).
#[inline(never)]
fn encode_plain(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let mut levels = [0; ELEMS];
    let mut scales = [0.0; SUBS];
    for sub in 0..SUBS {
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        scales[sub] = fit::signed_by_descent(x, 4, array_at_mut(&mut levels, sub * SUB_ELEMS));
    }
    let max_scale = fit::largest(&scales).0;
    if max_scale != 0.0 {
        // In steps that map the scale of largest magnitude to -32; truncated to a byte, like in the
        // reference, before clamping.
        let inv_scale = -32.0 / max_scale;
        let scale_levels =
            scales.map(|scale| ((nearest_int(inv_scale * scale) as i8).clamp(-32, 31) + 32) as u8);
        finish(values, &scale_levels, 1.0 / inv_scale, &mut levels, block);
    } else {
        *array_at_mut(block, 96) = [0; 12];
        put_f16(block, 108, 0.0);
        put_levels(&levels, block);
    }
}

#[inline(never)]
fn encode_weighted(values: &[f32; ELEMS], importance: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let sigma2 = 2.0 * fit::sum_of_squares(values) / 256.0;
    let mut levels = [0; ELEMS];
    let (mut scales, mut sum_w) = ([0.0; SUBS], [0.0; SUBS]);
    for sub in 0..SUBS {
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        let weights = fit::importance_weights(x, array_at(importance, sub * SUB_ELEMS), sigma2);
        sum_w[sub] = fit::sum(&weights);
        scales[sub] = fit::signed(x, &weights, 4, array_at_mut(&mut levels, sub * SUB_ELEMS));
    }
    // The integers are searched with weights too: `scale_s ~ d * (integer_s - 32)`.
    let mut scale_levels = [0; SUBS];
    let scale = fit::signed(&scales, &sum_w, 32, &mut scale_levels);
    finish(values, &scale_levels, scale, &mut levels, block);
}

/// Writes the scales, rounds the values again with the values that a reader will see, and packs the levels. A
/// sub-block whose scale is zero keeps the levels of its search.
#[inline(always)]
fn finish(
    values: &[f32; ELEMS],
    scale_levels: &[u8; SUBS],
    scale: f32,
    levels: &mut [u8; ELEMS],
    block: &mut [u8; BYTES],
) {
    *array_at_mut(block, 96) = pack_scales(scale_levels);
    put_f16(block, 108, scale);
    let scales = read_scales(block);
    for sub in 0..SUBS {
        if scales[sub] == 0.0 {
            continue;
        }
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        *array_at_mut::<SUB_ELEMS, _>(levels, sub * SUB_ELEMS) =
            x.map(|x| (nearest_int(x / scales[sub]).clamp(-4, 3) + 4) as u8);
    }
    put_levels(levels, block);
}

#[inline(always)]
pub fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
    // The third bits: bit `octant` of byte `i` is that of element `32 * octant + i`.
    let mut third = [0u8; 32];
    for (octant, levels) in levels.as_chunks::<32>().0.iter().enumerate() {
        for i in 0..32 {
            third[i] |= (levels[i] >> 2 & 1) << octant;
        }
    }
    *array_at_mut(block, 0) = third;
    *array_at_mut(block, 32) = two_bits::pack(&levels.map(|level| level & 3));
}

#[inline(always)]
pub fn pack_scales(levels: &[u8; SUBS]) -> [u8; 12] {
    std::array::from_fn(|i| match i {
        0..8 => (levels[i] & 0x0f) | levels[i + 8] << 4,
        _ => (0..4).fold(0, |byte, quarter| byte | (levels[4 * quarter + i - 8] >> 4) << (2 * quarter)),
    })
}

/// The scale of each sub-block as a float.
#[inline(always)]
pub fn read_scales(block: &[u8; BYTES]) -> [f32; SUBS] {
    let scale = f16_at(block, 108);
    unpack_scales(array_at(block, 96)).map(|level| scale * (i32::from(level) - 32) as f32)
}

#[inline(always)]
pub fn unpack_scales(packed: &[u8; 12]) -> [u8; SUBS] {
    std::array::from_fn(|sub| {
        let low = if sub < 8 { packed[sub] & 0x0f } else { packed[sub - 8] >> 4 };
        let high = packed[8 + sub % 4] >> (2 * (sub / 4)) & 3;
        low | high << 4
    })
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scales = read_scales(block);
    let third: &[u8; 32] = array_at(block, 0);
    for (sub, values) in values.as_chunks_mut::<SUB_ELEMS>().0.iter_mut().enumerate() {
        let scale = scales[sub];
        let low = two_bits::unpack(array_at(block, 32), sub);
        let third: &[u8; SUB_ELEMS] = array_at(third, sub % 2 * 16);
        *values = std::array::from_fn(|i| {
            let level = low[i] | (third[i] >> (sub / 2) & 1) << 2;
            scale * (i32::from(level) - 4) as f32
        });
    }
}
