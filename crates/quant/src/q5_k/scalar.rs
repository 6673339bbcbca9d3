//! The meaning of Q5_K.

use crate::{
    block::{array_at, array_at_mut},
    fit::Candidates,
    k_scales,
};

/// Elements in a block.
pub const ELEMS: usize = 256;
/// Bytes of a block.
pub const BYTES: usize = 176;

/// The candidate scales of the search without importance weights.
pub const CANDIDATES: Candidates = Candidates { first: -0.5, step: 0.1, n_steps: 15 };

/// Encodes without importance weights.
#[inline(never)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let mut levels = [0; ELEMS];
    k_scales::fit(values, 31, CANDIDATES, array_at_mut(block, 0), &mut levels);
    put_levels(&levels, block);
}

/// Encodes with importance weights.
#[inline(never)]
pub fn encode_weighted(values: &[f32; ELEMS], importance: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let mut levels = [0; ELEMS];
    k_scales::fit_weighted(values, importance, 31, 63, array_at_mut(block, 0), &mut levels);
    put_levels(&levels, block);
}

/// Packs levels.
#[inline(always)]
pub fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
    let mut fifth = [0u8; 32];
    for (sub, levels) in levels.as_chunks::<32>().0.iter().enumerate() {
        for i in 0..32 {
            // Bit `sub` of byte `i` is the fifth bit of element `i` of that sub-block.
            fifth[i] |= (levels[i] >> 4 & 1) << sub;
        }
    }
    *array_at_mut(block, 16) = fifth;
    let out: &mut [u8; 128] = array_at_mut(block, 48);
    for (levels, out) in levels.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        *out = std::array::from_fn(|i| (levels[i] & 0x0f) | levels[i + 32] << 4);
    }
}

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let (scales, mins) = k_scales::read(array_at(block, 0));
    let fifth: &[u8; 32] = array_at(block, 16);
    let levels: &[u8; 128] = array_at(block, 48);
    for (sub, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = (scales[sub], mins[sub]);
        let levels: &[u8; 32] = array_at(levels, sub / 2 * 32);
        let shift = sub % 2 * 4;
        *values = std::array::from_fn(|i| {
            let level = (levels[i] >> shift & 0x0f) | (fifth[i] >> sub & 1) << 4;
            scale * f32::from(level) - min
        });
    }
}
