//! The meaning of F32.

pub const ELEMS: usize = 1;
pub const BYTES: usize = 4;

#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    *block = values[0].to_le_bytes();
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    values[0] = f32::from_le_bytes(*block);
}
