//! Q6_K with fixed scales.

use gguf_types::DType;

use super::scalar::{BYTES, ELEMS, SUB_ELEMS, put_levels};
use crate::{
    block::f16_at,
    frozen::{Codes, Frozen, NO_OFFSET, Points},
};

pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q6_K;
    const GROUP: usize = SUB_ELEMS;
    // Levels -32 to 31, offset by 32.
    const POINTS: Points = Points::Steps { zero: 32, lowest: 0, highest: 63 };
    // Scales are signed bytes, offset by 128.
    const CODES: [Codes; 2] = [Codes::Integers { lowest: 0, highest: 255, zero: 128 }, Codes::None];

    #[inline(always)]
    fn codes(block: &[u8; BYTES], group: usize) -> [u16; 2] {
        [u16::from(block[192 + group] ^ 0x80), 0]
    }

    #[inline(always)]
    fn scale(block: &[u8; BYTES], [scale, _]: [u16; 2]) -> [f32; 2] {
        [f16_at(block, 208) * (i32::from(scale) - 128) as f32, NO_OFFSET]
    }

    #[inline(always)]
    fn put_codes([scale, _]: [u16; 2], block: &mut [u8; BYTES], group: usize) {
        block[192 + group] = scale as u8 ^ 0x80;
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        // In each half of a block, two quarters share the bytes of low halves, and all four those of upper
        // bits, two bits each.
        std::array::from_fn(|i| {
            let (half, quarter) = (i / 128, i / 32 % 4);
            let low = block[64 * half + 32 * (quarter % 2) + i % 32] >> (quarter / 2 * 4) & 0x0f;
            low | (block[128 + 32 * half + i % 32] >> (2 * quarter) & 3) << 4
        })
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_levels(levels, block);
    }
}
