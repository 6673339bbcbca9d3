//! The meaning of Q4_K.

use crate::{
    block::{array_at, array_at_mut},
    fit::Candidates,
    k_scales,
};

/// Elements in a block.
pub const ELEMS: usize = 256;
/// Bytes of a block.
pub const BYTES: usize = 144;

/// The candidate scales of the search without importance weights.
pub const CANDIDATES: Candidates = Candidates { first: -1.0, step: 0.1, n_steps: 20 };

/// Encodes without importance weights.
#[inline(never)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let mut levels = [0; ELEMS];
    k_scales::fit(values, 15, CANDIDATES, array_at_mut(block, 0), &mut levels);
    put_levels(&levels, array_at_mut(block, 16));
}

/// Encodes with importance weights.
#[inline(never)]
pub fn encode_weighted(values: &[f32; ELEMS], importance: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let mut levels = [0; ELEMS];
    k_scales::fit_weighted(values, importance, 15, u8::MAX, array_at_mut(block, 0), &mut levels);
    put_levels(&levels, array_at_mut(block, 16));
}

/// Packs levels.
#[inline(always)]
pub fn put_levels(levels: &[u8; ELEMS], out: &mut [u8; 128]) {
    for (levels, out) in levels.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        *out = std::array::from_fn(|i| levels[i] | levels[i + 32] << 4);
    }
}

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let (scales, mins) = k_scales::read(array_at(block, 0));
    let levels: &[u8; 128] = array_at(block, 16);
    for (sub, values) in values.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = (scales[sub], mins[sub]);
        let levels: &[u8; 32] = array_at(levels, sub / 2 * 32);
        let shift = sub % 2 * 4;
        *values = levels.map(|level| scale * f32::from(level >> shift & 0x0f) - min);
    }
}
