//! IQ3_S with fixed scales.

use gguf_types::DType;

use super::BYTES;
use crate::{
    block::f16_at,
    codebook::{Choice, Codebook, Eights},
    grids::IQ3_S_VALUES,
};

pub struct Block;

impl Eights<BYTES> for Block {
    const DTYPE: DType = DType::IQ3_S;
    const GROUP: usize = 32;
    const CODEBOOK: Codebook = Codebook::Fours(&IQ3_S_VALUES);
    const EVEN: bool = false;

    #[inline(always)]
    fn scale(block: &[u8; BYTES], group: usize) -> f32 {
        // Only odd multiples: 4 bits reach from 1 to 31.
        f16_at(block, 0) * f32::from(1 + 2 * (block[106 + group / 2] >> (4 * (group % 2)) & 15))
    }

    #[inline(always)]
    fn choice(block: &[u8; BYTES], eight: usize) -> Choice {
        // 512 points of four columns take nine bits; the ninths of eight points share a byte.
        let high = usize::from(block[66 + eight / 4]) >> (2 * (eight % 4));
        // Indices have the width of addresses: the compiler would vectorize shorter ones, which is slower.
        let points = [0, 1].map(|i| usize::from(block[2 + 2 * eight + i]) | (high >> i & 1) << 8);
        Choice { points: points.map(|point| point as u16), signs: block[74 + eight] }
    }

    #[inline(always)]
    fn put_choice(choice: Choice, block: &mut [u8; BYTES], eight: usize) {
        let shift = 2 * (eight % 4);
        [block[2 + 2 * eight], block[3 + 2 * eight]] = choice.points.map(|point| point as u8);
        let [low, high] = choice.points.map(|point| (point >> 8) as u8);
        block[66 + eight / 4] = block[66 + eight / 4] & !(3 << shift) | (low | high << 1) << shift;
        block[74 + eight] = choice.signs;
    }
}
