//! Checks that stored blocks could come from an encoder: finite numbers, valid codes.
//!
//! Grids of the IQ types have a point for every index, so no index is invalid. Only scales can be invalid,
//! and codes of the ternary and microscaling types.
//!
//! Source: `ggml_validate_row_data` in `ggml/src/ggml-quants.c` (llama.cpp as vendored in llama-cpp-python
//! 0.3.36) for scales. The reference does not check codes.

use gguf_types::{
    DType,
    half::{bf16_to_f32, f16_to_f32},
};

/// A block that no encoder produces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BadBlock {
    /// Index of the block, from 0; for plain numbers, of the element.
    pub block: usize,
    /// The problem.
    pub problem: BlockProblem,
}

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum BlockProblem {
    /// An element of a plain float type is not finite.
    #[error("the value is {0}")]
    Value(f64),
    /// A scale or a minimum is not finite.
    #[error("the scale at byte {at} of the block is {value}")]
    Scale { at: usize, value: f32 },
    /// A byte that is undefined in this type.
    #[error("byte {at} of the block is 0x{byte:02x}, which no encoder writes")]
    Code { at: usize, byte: u8 },
}

/// Byte positions of the half-precision numbers in a block that multiply its scales and, second, its offsets.
pub const fn half_scales(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q4_0 | DType::Q5_0 | DType::Q8_0 | DType::Q1_0 | DType::Q2_0 => &[0],
        DType::Q4_1 | DType::Q5_1 | DType::Q8_1 | DType::Q4_K | DType::Q5_K => &[0, 2],
        DType::IQ2_XXS | DType::IQ2_XS | DType::IQ2_S | DType::IQ3_XXS | DType::IQ3_S => &[0],
        DType::IQ1_S | DType::IQ4_NL | DType::IQ4_XS => &[0],
        DType::Q2_K => &[80, 82],
        DType::Q3_K => &[108],
        DType::Q6_K => &[208],
        DType::TQ1_0 => &[52],
        DType::TQ2_0 => &[64],
        _ => &[],
    }
}

/// Infinity or NaN: an exponent of all ones.
const HALF_EXPONENT: u16 = 0x7c00;

/// The first of complete little-endian blocks that no encoder produces. Trailing bytes are ignored.
pub fn first_bad_block(dtype: DType, blocks: &[u8]) -> Option<BadBlock> {
    let value = |(block, value): (usize, f64)| BadBlock { block, problem: BlockProblem::Value(value) };
    match dtype {
        DType::F32 => first_value(blocks, |bytes| f32::from_le_bytes(bytes).into()).map(value),
        DType::F64 => first_value(blocks, f64::from_le_bytes).map(value),
        DType::F16 => first_value(blocks, |b| f16_to_f32(u16::from_le_bytes(b)).into()).map(value),
        DType::BF16 => first_value(blocks, |b| bf16_to_f32(u16::from_le_bytes(b)).into()).map(value),
        dtype => {
            let whole = blocks.chunks_exact(dtype.block_bytes() as usize);
            let problem = |(block, bytes): (usize, &[u8])| {
                let problem = bad_scale(dtype, bytes).or_else(|| bad_code(dtype, bytes))?;
                Some(BadBlock { block, problem })
            };
            whole.enumerate().find_map(problem)
        }
    }
}

/// The first number that is not finite.
fn first_value<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Option<(usize, f64)> {
    let (numbers, _) = bytes.as_chunks::<N>();
    // Chunks first: a loop without an exit is vectorized, and nearly all chunks are valid.
    for (index, chunk) in numbers.chunks(4096).enumerate() {
        if chunk.iter().fold(true, |good, bytes| good & number(*bytes).is_finite()) {
            continue;
        }
        let at = chunk.iter().position(|bytes| !number(*bytes).is_finite())?;
        return Some((index * 4096 + at, number(chunk[at])));
    }
    None
}

/// Scales that are not finite.
fn bad_scale(dtype: DType, block: &[u8]) -> Option<BlockProblem> {
    let half_at = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
    let bad = |at: usize, half: u16| {
        let is_bad = half & HALF_EXPONENT == HALF_EXPONENT;
        is_bad.then(|| BlockProblem::Scale { at, value: f16_to_f32(half) })
    };
    match dtype {
        DType::IQ1_M => bad(48, iq1_m_scale(block)),
        DType::Q8_K => {
            let value = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
            (!value.is_finite()).then_some(BlockProblem::Scale { at: 0, value })
        }
        // The exponent of all ones is NaN (OCP microscaling formats 1.0, E8M0).
        DType::MXFP4 => (block[0] == 0xff).then_some(BlockProblem::Scale { at: 0, value: f32::NAN }),
        dtype => half_scales(dtype).iter().find_map(|&at| bad(at, half_at(at))),
    }
}

/// Half-precision scale of a block of IQ1_M: one nibble at the top of each of four words, the lowest first.
pub(crate) fn iq1_m_scale(block: &[u8]) -> u16 {
    let word = |i: usize| u16::from_le_bytes([block[48 + 2 * i], block[49 + 2 * i]]);
    (0..4).map(|i| (word(i) >> 12) << (4 * i)).fold(0, |half, nibble| half | nibble)
}

fn bad_code(dtype: DType, block: &[u8]) -> Option<BlockProblem> {
    let find = |range: std::ops::Range<usize>, is_bad: fn(u8) -> bool| {
        let at = range.clone().find(|&at| is_bad(block[at]))?;
        Some(BlockProblem::Code { at, byte: block[at] })
    };
    match dtype {
        // Five base-3 digits per byte, then four.
        DType::TQ1_0 => {
            find(0..48, |byte| !is_ternary(byte, 1)).or_else(|| find(48..52, |byte| !is_ternary(byte, 3)))
        }
        // Two bits per element; 3 is not one of -1, 0, 1: both bits of a pair are set.
        DType::TQ2_0 => find(0..64, |byte| byte & (byte >> 1) & 0x55 != 0),
        // No sign, and 0x7f is NaN in e4m3.
        DType::NVFP4 => find(0..4, |byte| byte >= 0x7f),
        _ => None,
    }
}

/// True if TQ1_0 encodes a multiple `n` of `step` with five base-3 digits as this byte: `ceil(256 n / 243)`.
fn is_ternary(byte: u8, step: u32) -> bool {
    // The only number that could be encoded as this byte.
    let n = u32::from(byte) * 243 / 256;
    n.is_multiple_of(step) && (n * 256).div_ceil(243) == u32::from(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CODECS, Level, Rows, encode};

    /// Encoded blocks are valid in every type, for zeros and large values alike.
    #[test]
    fn encoder_output_is_valid() {
        for codec in CODECS.iter().filter(|codec| codec.encode.is_some()) {
            let dtype = codec.dtype;
            let n_elems = 4 * dtype.block_elems().max(256) as usize;
            for scale in [0.0, 1e-6, 1.0, 1000.0] {
                let values: Vec<f32> =
                    (0..n_elems).map(|i| scale * ((i * 7919 % 1000) as f32 / 500.0 - 1.0)).collect();
                let weights = vec![1.0; n_elems];
                let mut blocks =
                    vec![0; n_elems / dtype.block_elems() as usize * dtype.block_bytes() as usize];
                let rows = Rows { values: &values, row_elems: n_elems, weights: Some(&weights) };
                encode(dtype, Level::detect(), rows, &mut blocks).unwrap();
                assert_eq!(first_bad_block(dtype, &blocks), None, "{dtype} {scale}");
            }
        }
    }

    /// Checks every byte that decodes to a scale: all ones are found at any position.
    #[test]
    fn nan_scale_is_found_in_every_type() {
        for codec in CODECS {
            let dtype = codec.dtype;
            let n_bytes = dtype.block_bytes() as usize;
            let mut found = 0;
            for at in 0..n_bytes {
                let mut blocks = vec![0; 3 * n_bytes];
                // The exponent of every float type is in its highest byte, except for one-byte types.
                blocks[n_bytes + at] = 0xff;
                if at > 0 {
                    blocks[n_bytes + at - 1] = 0xff;
                }
                let mut values = vec![0.0; 3 * dtype.block_elems() as usize];
                crate::decode(dtype, Level::detect(), &blocks, &mut values).unwrap();
                if values.iter().any(|value| !value.is_finite()) {
                    found += 1;
                    assert_eq!(first_bad_block(dtype, &blocks).map(|bad| bad.block), Some(1), "{dtype} {at}");
                }
            }
            // The one-byte scales of these two are always numbers, and that of IQ1_M is in four places.
            let has_none = matches!(dtype, DType::NVFP4 | DType::MXFP4 | DType::IQ1_M);
            assert!(found > 0 || has_none, "{dtype}");
        }
    }

    #[test]
    fn unused_codes_are_found() {
        let n_ternary = |step| (0..=255).filter(|byte| is_ternary(*byte, step)).count();
        assert_eq!((n_ternary(1), n_ternary(3)), (243, 81));
        let code = |dtype: DType, at: usize, byte: u8| {
            let mut block = vec![0; dtype.block_bytes() as usize];
            block[at] = byte;
            first_bad_block(dtype, &block).map(|bad| bad.problem)
        };
        assert_eq!(code(DType::TQ2_0, 5, 0b0011_0000), Some(BlockProblem::Code { at: 5, byte: 0x30 }));
        assert_eq!(code(DType::TQ2_0, 5, 0b0110_1010), None);
        assert_eq!(code(DType::NVFP4, 3, 0x7f), Some(BlockProblem::Code { at: 3, byte: 0x7f }));
        assert_eq!(code(DType::NVFP4, 4, 0x7f), None);
        assert_eq!(
            code(DType::MXFP4, 0, 0xff).map(|problem| matches!(problem, BlockProblem::Scale { .. })),
            Some(true)
        );
        let iq1_m = [49, 51, 53, 55].into_iter().fold(vec![0; 56], |mut block, at| {
            block[at] = 0xf0;
            block
        });
        assert!(first_bad_block(DType::IQ1_M, &iq1_m).is_some());
        let halves: Vec<u8> = [0u16, 0x3c00, 0xfc00].iter().flat_map(|half| half.to_le_bytes()).collect();
        let infinite = BadBlock { block: 2, problem: BlockProblem::Value(f64::NEG_INFINITY) };
        assert_eq!(first_bad_block(DType::F16, &halves), Some(infinite));
    }
}
