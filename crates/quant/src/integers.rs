//! Blocks as integers and float scales: `x = d * scale * (level - offset) + m * minimum`, with bytes `level`
//! for each element, integers `scale` and `minimum` for each group of some, and floats `d` and `m` for the
//! block.

use gguf_types::{DType, half::f16_to_f32};

use crate::{
    CodecError, Level,
    frozen::{Codes, Points, frozen},
    valid::half_scales,
};

/// Layout of a type's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegerForm {
    /// Elements of a block, which share `d` and `m`.
    pub block_elems: usize,
    /// Elements that share a minimum; `None` if the type has no minima.
    pub min_elems: Option<usize>,
    /// Elements that share an integer scale; `None` if the type has no such scales, or if levels times scales
    /// are bytes.
    pub scale_elems: Option<usize>,
    /// Offset of levels above the integers that they represent.
    pub offset: u8,
    /// Largest level.
    pub max_level: u8,
}

/// Buffers for the components of blocks, row-major.
#[derive(Debug)]
pub struct IntegerBlocks<'a> {
    /// One for each element.
    pub levels: &'a mut [u8],
    /// `d` of each block.
    pub scales: &'a mut [f32],
    /// One per group that shares a scale, at most 128 in absolute value; empty without scales.
    pub int_scales: &'a mut [i16],
    /// One per group that shares a minimum, at most 63 in absolute value; empty without minima.
    pub minima: &'a mut [i16],
    /// `m` of each block; empty without minima.
    pub min_scales: &'a mut [f32],
}

impl IntegerBlocks<'_> {
    /// Reborrows the buffers.
    pub fn lent(&mut self) -> IntegerBlocks<'_> {
        IntegerBlocks {
            levels: self.levels,
            scales: self.scales,
            int_scales: self.int_scales,
            minima: self.minima,
            min_scales: self.min_scales,
        }
    }
}

/// The form of a type; `None` for other types.
pub const fn integer_form(dtype: DType) -> Option<IntegerForm> {
    // Offsets raise the lowest level to 0: nibbles are stored this way, signed bytes begin at -128.
    let (block_elems, min_elems, scale_elems, offset, max_level) = match dtype {
        DType::Q4_0 => (32, None, None, 8, 15),
        DType::Q5_0 => (32, None, None, 16, 31),
        DType::Q8_0 | DType::IQ4_NL => (32, None, None, 128, 255),
        DType::Q4_1 => (32, Some(32), None, 0, 15),
        DType::Q5_1 => (32, Some(32), None, 0, 31),
        // Products of 4-bit scales and 2-bit levels, and of signed 6-bit scales and signed 3-bit levels (-124
        // to 128), are bytes, so that kernels need not multiply by scales.
        DType::Q2_K => (256, Some(16), None, 0, 45),
        DType::Q3_K => (256, None, None, 127, 255),
        DType::Q4_K => (256, Some(32), Some(32), 0, 15),
        DType::Q5_K => (256, Some(32), Some(32), 0, 31),
        DType::Q6_K => (256, None, Some(16), 32, 63),
        DType::IQ4_XS => (256, None, Some(32), 128, 255),
        _ => return None,
    };
    Some(IntegerForm { block_elems, min_elems, scale_elems, offset, max_level })
}

/// Decodes little-endian blocks to integers and scales.
///
/// # Errors
/// [`CodecError::NoCodec`] for a type without an [`integer_form`].
pub fn decode_integers(
    dtype: DType,
    level: Level,
    blocks: &[u8],
    out: IntegerBlocks<'_>,
) -> Result<(), CodecError> {
    let (Some(form), Some(row)) = (integer_form(dtype), frozen(dtype)) else {
        return Err(CodecError::NoCodec { dtype, verb: "take apart" });
    };
    let places = half_scales(dtype);
    // Position of `d` in the block, followed by `m`.
    let half = |block: &[u8], at: usize| f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]));
    (row.levels)(blocks, out.levels);
    let groups = form.block_elems / row.group;
    let [scale_codes, min_codes] = row.codes;
    let zero_of_scales = match scale_codes {
        Codes::Integers { zero, .. } => Some(zero as i16),
        _ => None,
    };
    let each =
        blocks.chunks_exact(dtype.block_bytes() as usize).zip(out.levels.chunks_exact_mut(form.block_elems));
    // At most one per 16 elements.
    let mut codes = [[0; 2]; 16];
    for (index, (block, levels)) in each.enumerate() {
        out.scales[index] = half(block, places[0]);
        if form.min_elems.is_some() {
            out.min_scales[index] = half(block, places[1]);
        }
        if zero_of_scales.is_some() || matches!(min_codes, Codes::Integers { .. }) {
            (row.block_codes)(block, &mut codes[..groups]);
        }
        if let Some(minima) = out.minima.get_mut(index * groups..(index + 1) * groups) {
            for (minimum, [_, code]) in minima.iter_mut().zip(codes) {
                // Integer minima are subtracted, float ones are added: `m` keeps its stored sign.
                *minimum = match min_codes {
                    Codes::Integers { zero, .. } => zero as i16 - code as i16,
                    _ => 1,
                };
            }
        }
        match (zero_of_scales, form.scale_elems) {
            (Some(zero), Some(_)) => {
                let scales = &mut out.int_scales[index * groups..(index + 1) * groups];
                scales.iter_mut().zip(codes).for_each(|(scale, [code, _])| *scale = code as i16 - zero);
            }
            // Products of levels and scales are bytes.
            (Some(zero), None) => level.vectorize(
                #[inline(always)]
                || {
                    let Points::Steps { zero: zero_of_levels, .. } = row.points else { return };
                    for (levels, [code, _]) in levels.chunks_exact_mut(row.group).zip(codes) {
                        // Modulo 256, because the result is a byte.
                        let scale = (code as i16 - zero) as u8;
                        for level in levels {
                            *level = level
                                .wrapping_sub(zero_of_levels)
                                .wrapping_mul(scale)
                                .wrapping_add(form.offset);
                        }
                    }
                },
            ),
            (None, _) => {}
        }
    }
    // So far the levels are indices of the codebook.
    if let Points::Table(table) = row.points {
        let bytes = table.map(|point| (i16::from(point) + i16::from(form.offset)) as u8);
        level.vectorize(
            #[inline(always)]
            || out.levels.iter_mut().for_each(|level| *level = bytes[usize::from(*level & 15)]),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CODECS, decode};

    /// Any bits except in scales, which are numbers of all sizes: all possible codes.
    fn blocks(dtype: DType, n_blocks: usize) -> Vec<u8> {
        let n_bytes = dtype.block_bytes() as usize;
        let mut blocks: Vec<u8> =
            (0..n_blocks * n_bytes).map(|i| gguf_testkit::mix(7, i as u64) as u8).collect();
        for (index, block) in blocks.chunks_exact_mut(n_bytes).enumerate() {
            for (scale_index, &at) in half_scales(dtype).iter().enumerate() {
                let bits = gguf_testkit::mix(8, (2 * index + scale_index) as u64) as u16;
                block[at..at + 2].copy_from_slice(&(bits & 0xbbff).to_le_bytes());
            }
        }
        blocks
    }

    #[test]
    fn integers_times_scales_match_decoder() {
        let (mut n_types, n) = (0, 8192);
        for codec in CODECS {
            let dtype = codec.dtype;
            let Some(form) = integer_form(dtype) else { continue };
            n_types += 1;
            assert_eq!(form.block_elems, dtype.block_elems() as usize);
            let n_blocks = n / form.block_elems;
            let blocks = blocks(dtype, n_blocks);
            let mut expected = vec![0.0; n];
            decode(dtype, Level::Scalar, &blocks, &mut expected).unwrap();
            for level in Level::available() {
                let groups = |elems: Option<usize>| elems.map_or(0, |elems| n / elems);
                let (mut levels, mut scales) = (vec![0; n], vec![0.0; n_blocks]);
                let (mut int_scales, mut minima) =
                    (vec![0; groups(form.scale_elems)], vec![0; groups(form.min_elems)]);
                let mut min_scales = vec![0.0; if form.min_elems.is_some() { n_blocks } else { 0 }];
                let out = IntegerBlocks {
                    levels: &mut levels,
                    scales: &mut scales,
                    int_scales: &mut int_scales,
                    minima: &mut minima,
                    min_scales: &mut min_scales,
                };
                decode_integers(dtype, level, &blocks, out).unwrap();
                assert!(int_scales.iter().all(|scale| scale.abs() <= 128), "{dtype:?}");
                assert!(minima.iter().all(|minimum| minimum.abs() <= 63), "{dtype:?}");
                assert!(levels.iter().all(|level| *level <= form.max_level), "{dtype:?}");
                for i in 0..n {
                    let block = i / form.block_elems;
                    let int_scale = form.scale_elems.map_or(1, |elems| int_scales[i / elems]);
                    let integer = (i32::from(levels[i]) - i32::from(form.offset)) * i32::from(int_scale);
                    let mut value = f64::from(scales[block]) * f64::from(integer);
                    let mut size = value.abs();
                    if let Some(elems) = form.min_elems {
                        let minimum = f64::from(min_scales[block]) * f64::from(minima[i / elems]);
                        value += minimum;
                        size += minimum.abs();
                    }
                    // The codec rounds products and their sum.
                    let bound = 4.0 * f64::from(f32::EPSILON) * size + 1e-40;
                    assert!(
                        (value - f64::from(expected[i])).abs() <= bound,
                        "{dtype:?} {i} {value} {}",
                        expected[i]
                    );
                }
            }
        }
        assert_eq!(n_types, 12);
    }
}
