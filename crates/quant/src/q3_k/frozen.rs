//! Q3_K with fixed scales.

use gguf_types::DType;

use super::scalar::{BYTES, ELEMS, SUB_ELEMS, pack_scales, put_levels, unpack_scales};
use crate::{
    block::{array_at, array_at_mut, f16_at},
    frozen::{Codes, Frozen, NO_OFFSET, Points},
    two_bits,
};

pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q3_K;
    const GROUP: usize = SUB_ELEMS;
    // Two bits plus a third bit worth 4, minus 4: a clear third bit makes a level negative.
    const POINTS: Points = Points::Steps { zero: 4, lowest: 0, highest: 7 };
    // Six bits, offset by 32.
    const CODES: [Codes; 2] = [Codes::Integers { lowest: 0, highest: 63, zero: 32 }, Codes::None];

    #[inline(always)]
    fn codes(block: &[u8; BYTES], group: usize) -> [u16; 2] {
        [u16::from(unpack_scales(array_at(block, 96))[group]), 0]
    }

    #[inline(always)]
    fn scale(block: &[u8; BYTES], [scale, _]: [u16; 2]) -> [f32; 2] {
        [f16_at(block, 108) * (i32::from(scale) - 32) as f32, NO_OFFSET]
    }

    #[inline(always)]
    fn put_codes([scale, _]: [u16; 2], block: &mut [u8; BYTES], group: usize) {
        let mut scales = unpack_scales(array_at(block, 96));
        scales[group] = scale as u8;
        *array_at_mut(block, 96) = pack_scales(&scales);
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        let third: &[u8; 32] = array_at(block, 0);
        let mut levels = [0; ELEMS];
        for (sub, levels) in levels.as_chunks_mut::<SUB_ELEMS>().0.iter_mut().enumerate() {
            let low = two_bits::unpack(array_at(block, 32), sub);
            let third: &[u8; SUB_ELEMS] = array_at(third, sub % 2 * 16);
            // Byte j of the mask has a bit for each element j + 32 k of the block, bit k.
            *levels = std::array::from_fn(|i| low[i] | (third[i] >> (sub / 2) & 1) << 2);
        }
        levels
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_levels(levels, block);
    }
}
