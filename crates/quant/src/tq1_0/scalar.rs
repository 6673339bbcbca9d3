//! The meaning of TQ1_0.

use crate::{
    block::{f16_at, put_f16},
    fit::steps_of_largest,
};

pub const ELEMS: usize = 256;
pub const BYTES: usize = 54;

/// Positions of digits: `(first byte, first element, bytes, digits)`; digit `d` of byte `i` is the element
/// `first element + d * bytes + i`.
const GROUPS: [(usize, usize, usize, usize); 3] = [(0, 0, 32, 5), (32, 160, 16, 5), (48, 240, 4, 4)];

/// Encodes a block: the largest magnitude becomes 1; halves are rounded away from zero.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (scale, steps) = steps_of_largest(values, 1.0);
    let digits = steps.map(|step| step.wrapping_add(1));
    put_f16(block, 52, scale);
    pack::<32, 5>(&digits[..160], &mut block[..32]);
    pack::<16, 5>(&digits[160..240], &mut block[32..48]);
    pack::<4, 4>(&digits[240..], &mut block[48..52]);
}

/// Packs `DIGITS` digits into each of `BYTES` bytes; digit `d` of byte `i` is at `d * BYTES + i`.
#[inline(always)]
fn pack<const BYTES: usize, const DIGITS: usize>(digits: &[u8], bytes: &mut [u8]) {
    let mut numbers = [0u8; BYTES];
    for d in 0..5 {
        let digits = if d < DIGITS { &digits[d * BYTES..(d + 1) * BYTES] } else { &[0; BYTES][..] };
        for i in 0..BYTES {
            numbers[i] = numbers[i].wrapping_mul(3).wrapping_add(digits[i]);
        }
    }
    for (byte, number) in bytes.iter_mut().zip(numbers) {
        // `ceil(number * 256 / 243)`: 3^5 = 243 numbers spread over the 256 of a byte.
        *byte = (u16::from(number) * 256).wrapping_add(242).div_euclid(243) as u8;
    }
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let scale = f16_at(block, 52);
    for (byte, elem, n_bytes, n_digits) in GROUPS {
        for d in 0..n_digits {
            for i in 0..n_bytes {
                // The byte times 3^d has shifted `d` digits out at the top; three times that, the next one is
                // above the byte.
                let rest = block[byte + i].wrapping_mul(POWERS[d]);
                let digit = (u16::from(rest) * 3) >> 8;
                values[elem + d * n_bytes + i] = (i32::from(digit) - 1) as f32 * scale;
            }
        }
    }
}
