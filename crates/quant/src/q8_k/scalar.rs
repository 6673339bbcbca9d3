//! The meaning of Q8_K.

use crate::{
    block::{array_at, array_at_mut, decode_signed},
    fit::largest,
    round::nearest_int,
};

pub const ELEMS: usize = 256;
pub const BYTES: usize = 292;

/// Encodes a block: the value of largest magnitude becomes -127; halves are rounded to even.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (max, magnitude) = largest(values);
    if magnitude == 0.0 {
        *block = [0; BYTES];
        return;
    }
    // The extreme becomes -127, whatever its sign, like in the reference.
    let inv_scale = -127.0 / max;
    let levels = values.map(|x| nearest_int(inv_scale * x).min(127) as i8);
    *array_at_mut(block, 0) = (1.0 / inv_scale).to_le_bytes();
    *array_at_mut::<ELEMS, _>(block, 4) = levels.map(|level| level as u8);
    for (i, levels) in levels.as_chunks::<16>().0.iter().enumerate() {
        let sum: i16 = levels.iter().map(|level| i16::from(*level)).sum();
        *array_at_mut(block, 260 + 2 * i) = sum.to_le_bytes();
    }
}

/// Decodes a block; the sums are not needed.
#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f32::from_le_bytes(*array_at(block, 0));
    decode_signed(array_at(block, 4), scale, values);
}
