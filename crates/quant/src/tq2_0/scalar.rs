//! The meaning of TQ2_0.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16},
    fit::steps_of_largest,
    two_bits,
};

pub const ELEMS: usize = 256;
pub const BYTES: usize = 66;

/// Encodes a block: the largest magnitude becomes 1; halves are rounded away from zero.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (scale, steps) = steps_of_largest(values, 1.0);
    let levels = steps.map(|step| step.wrapping_add(1) & 3);
    *array_at_mut(block, 0) = two_bits::pack(&levels);
    put_f16(block, 64, scale);
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 64);
    for (sub, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let levels = two_bits::unpack(array_at(block, 0), sub);
        *values = levels.map(|level| (i32::from(level) - 1) as f32 * scale);
    }
}
