//! The meaning of Q4_K and Q5_K.

use super::Layout;
use crate::{
    block::{array_at, array_at_mut},
    k_scales::{self, ELEMS},
};

/// Encodes a block, with importance weights if there are any.
#[inline(never)]
pub fn encode<T: Layout<B>, const B: usize>(
    values: &[f32; ELEMS],
    importance: Option<&[f32; ELEMS]>,
    block: &mut [u8; B],
) {
    let mut levels = [0; ELEMS];
    let head = array_at_mut(block, 0);
    match importance {
        None => k_scales::fit(values, T::MAX_LEVEL, T::CANDIDATES, head, &mut levels),
        Some(importance) => {
            k_scales::fit_weighted(values, importance, T::MAX_LEVEL, T::MAX_SCALE, head, &mut levels);
        }
    }
    put_levels::<T, B>(&levels, block);
}

#[inline(always)]
pub fn put_levels<T: Layout<B>, const B: usize>(levels: &[u8; ELEMS], block: &mut [u8; B]) {
    if T::FIVE {
        let mut fifth = [0u8; 32];
        for (sub, levels) in levels.as_chunks::<32>().0.iter().enumerate() {
            for i in 0..32 {
                // Bit `sub` of byte `i` is the fifth bit of element `i` of that sub-block.
                fifth[i] |= (levels[i] >> 4 & 1) << sub;
            }
        }
        *array_at_mut(block, 16) = fifth;
    }
    let low: &mut [u8; 128] = array_at_mut(block, B - 128);
    for (levels, low) in levels.as_chunks::<64>().0.iter().zip(low.as_chunks_mut::<32>().0) {
        *low = std::array::from_fn(|i| (levels[i] & 0x0f) | levels[i + 32] << 4);
    }
}

#[inline(always)]
pub fn levels<T: Layout<B>, const B: usize>(block: &[u8; B], sub: usize) -> [u8; 32] {
    let fifth: &[u8; 32] = array_at(block, 16);
    // Two sub-blocks share 32 bytes: the first has the low halves, the second the high ones.
    let low: &[u8; 32] = array_at(block, B - 128 + sub / 2 * 32);
    let shift = sub % 2 * 4;
    std::array::from_fn(|i| {
        let low = low[i] >> shift & 0x0f;
        if T::FIVE { low | (fifth[i] >> sub & 1) << 4 } else { low }
    })
}

#[inline(always)]
pub fn decode<T: Layout<B>, const B: usize>(block: &[u8; B], values: &mut [f32; ELEMS]) {
    let (scales, mins) = k_scales::read(array_at(block, 0));
    for (sub, values) in values.as_chunks_mut().0.iter_mut().enumerate() {
        let (scale, min) = (scales[sub], mins[sub]);
        *values = levels::<T, B>(block, sub).map(|level| scale * f32::from(level) - min);
    }
}
