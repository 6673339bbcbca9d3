//! Values that are too large to be weights.

use gguf_types::{
    DType,
    half::{f32_to_bf16, f32_to_f16},
};

use crate::{
    Level,
    codec::{codec, decode},
    valid::{half_scales, iq1_m_scale},
};

/// Largest factor between the scale of a block and its values: 128 x 32 in Q6_K, 127 x 32 in IQ4_XS.
const MAX_FACTOR: f32 = 4096.0;

/// The first value of complete little-endian blocks whose magnitude exceeds `limit`: index of its block (for
/// plain numbers, of the element), and the value. `None` for types without a decoder, and for NVFP4, whose
/// values are below 3000.
///
/// # Examples
/// ```
/// use gguf_quant::{Level, first_large_value};
/// use gguf_types::DType;
///
/// let numbers: Vec<u8> = [1.0f32, -3e7].iter().flat_map(|number| number.to_le_bytes()).collect();
/// assert_eq!(first_large_value(DType::F32, Level::detect(), &numbers, 1e4), Some((1, -3e7)));
/// ```
pub fn first_large_value(dtype: DType, level: Level, blocks: &[u8], limit: f32) -> Option<(usize, f32)> {
    codec(dtype)?;
    let decoded = |block: usize| {
        let bytes = blocks.chunks_exact(dtype.block_bytes() as usize).nth(block)?;
        let mut values = vec![0.0f32; dtype.block_elems() as usize];
        decode(dtype, level, bytes, &mut values).ok()?;
        values.into_iter().find(|value| value.abs() > limit).map(|value| (block, value))
    };
    // Without the sign, the bits of a float are ordered like its magnitude.
    match dtype {
        DType::F32 => {
            let limit = limit.to_bits();
            position(blocks, |bytes| u32::from_le_bytes(bytes) & 0x7fff_ffff > limit).and_then(decoded)
        }
        DType::F16 => {
            let limit = f32_to_f16(limit);
            position(blocks, |bytes| u16::from_le_bytes(bytes) & 0x7fff > limit).and_then(decoded)
        }
        DType::BF16 => {
            let limit = f32_to_bf16(limit);
            position(blocks, |bytes| u16::from_le_bytes(bytes) & 0x7fff > limit).and_then(decoded)
        }
        dtype => {
            let whole = blocks.chunks_exact(dtype.block_bytes() as usize);
            let scale = limit / MAX_FACTOR;
            // Nearly all blocks have small scales and need no decoding.
            let suspects = whole.enumerate().filter(|(_, block)| has_larger_scale(dtype, block, scale));
            suspects.map(|(block, _)| block).find_map(decoded)
        }
    }
}

/// Position of the first number with a property.
fn position<const N: usize>(bytes: &[u8], is_one: impl Fn([u8; N]) -> bool) -> Option<usize> {
    let (numbers, _) = bytes.as_chunks::<N>();
    // Chunks first: a loop without an exit is vectorized.
    for (index, chunk) in numbers.chunks(4096).enumerate() {
        if chunk.iter().fold(false, |any, bytes| any | is_one(*bytes)) {
            return Some(index * 4096 + chunk.iter().position(|bytes| is_one(*bytes))?);
        }
    }
    None
}

/// True if a scale of the block exceeds `limit` in magnitude.
fn has_larger_scale(dtype: DType, block: &[u8], limit: f32) -> bool {
    let limit_half = f32_to_f16(limit);
    match dtype {
        DType::IQ1_M => iq1_m_scale(block) & 0x7fff > limit_half,
        DType::Q8_K => f32::from_le_bytes([block[0], block[1], block[2], block[3]]).abs() > limit,
        // Only an exponent.
        DType::MXFP4 => f32::from_bits(u32::from(block[0]) << 23) > limit,
        dtype => half_scales(dtype)
            .iter()
            .any(|&at| u16::from_le_bytes([block[at], block[at + 1]]) & 0x7fff > limit_half),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CODECS, Rows, encode};

    /// Finds values above the limit in every type, and no smaller ones.
    #[test]
    fn large_values_are_found_in_every_type() {
        let level = Level::detect();
        for codec in CODECS.iter().filter(|codec| codec.encode.is_some() && codec.dtype != DType::NVFP4) {
            let dtype = codec.dtype;
            let n_elems = 4 * dtype.block_elems().max(256) as usize;
            for (scale, is_large) in [(1.0, false), (1000.0, false), (30_000.0, true)] {
                let values: Vec<f32> =
                    (0..n_elems).map(|i| scale * ((i * 7919 % 1000) as f32 / 500.0 - 1.0)).collect();
                let weights = vec![1.0; n_elems];
                let mut blocks =
                    vec![0; n_elems / dtype.block_elems() as usize * dtype.block_bytes() as usize];
                let rows = Rows { values: &values, row_elems: n_elems, weights: Some(&weights) };
                encode(dtype, level, rows, &mut blocks).unwrap();
                let mut decoded = vec![0.0f32; n_elems];
                decode(dtype, level, &blocks, &mut decoded).unwrap();
                let expected = decoded.iter().position(|value| value.abs() > 1e4);
                let found = first_large_value(dtype, level, &blocks, 1e4);
                let of = |index: usize| (index / dtype.block_elems() as usize, decoded[index]);
                assert_eq!(found, expected.map(of), "{dtype} {scale}");
                assert_eq!(found.is_some(), is_large, "{dtype} {scale}");
            }
        }
    }
}
