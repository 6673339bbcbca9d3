//! Blocks as integers and float scales: `x = d * level + m * minimum`, with integers `level` for each element and `minimum` for each
//! group of some.
//!
//! Nothing is unpacked here: a block whose float scale is 1 and whose other one is 0 decodes to its integers, exactly, since they
//! are below 2^13.

use std::ops::Range;

use tensor::{DType, half::f16_to_f32};

use crate::{CodecError, Level, valid::half_scales};

/// What a type's blocks are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegerForm {
    /// Elements of a block, which share `d` and `m`.
    pub block_elems: usize,
    /// Elements that share a minimum; none where the type has no minima.
    pub min_elems: Option<usize>,
}

/// The two kinds of integers in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integers {
    /// One for each element, with its sub-block's integer scale if there is one: in absolute value at most 4096.
    Levels,
    /// One for each group of elements, at most 63 in absolute value.
    Minima,
}

/// The form of a type; none for types that are something else.
pub const fn integer_form(dtype: DType) -> Option<IntegerForm> {
    // Blocks of 32 with a scale and perhaps a minimum; blocks of 256 whose sub-blocks have integer scales, and perhaps minima for 32 or 16.
    let (block_elems, min_elems) = match dtype {
        DType::Q4_0 | DType::Q5_0 | DType::Q8_0 | DType::IQ4_NL => (32, None),
        DType::Q4_1 | DType::Q5_1 => (32, Some(32)),
        DType::Q3_K | DType::Q6_K | DType::IQ4_XS => (256, None),
        DType::Q4_K | DType::Q5_K => (256, Some(32)),
        DType::Q2_K => (256, Some(16)),
        _ => return None,
    };
    Some(IntegerForm { block_elems, min_elems })
}

/// Decodes little-endian blocks to their integers, and the scale of each block: `values` one for each element, for minima too.
/// `scratch` is a buffer.
///
/// # Errors
/// As [`decode`](crate::decode); [`CodecError::NoCodec`] for a type without an [`integer_form`], or without minima where they are
/// asked for.
pub fn decode_integers(
    dtype: DType,
    level: Level,
    which: Integers,
    blocks: &[u8],
    scratch: &mut Vec<u8>,
    values: &mut [f32],
    scales: &mut [f32],
) -> Result<(), CodecError> {
    let places = half_scales(dtype);
    let kept = match which {
        Integers::Levels => places.first(),
        Integers::Minima => places.get(1),
    };
    let (Some(_), Some(&kept)) = (integer_form(dtype), kept) else {
        return Err(CodecError::NoCodec { dtype, verb: "take apart" });
    };
    scratch.clear();
    scratch.extend_from_slice(blocks);
    let half = |at: usize| -> Range<usize> { at..at + 2 };
    for (block, scale) in scratch.chunks_exact_mut(dtype.block_bytes() as usize).zip(scales) {
        *scale = f16_to_f32(u16::from_le_bytes([block[kept], block[kept + 1]]));
        for &at in places {
            // The other scale is 0, so that its integers, whatever they are, add nothing.
            let one_or_zero = if at == kept { ONE } else { 0 };
            block[half(at)].copy_from_slice(&one_or_zero.to_le_bytes());
        }
    }
    crate::decode(dtype, level, scratch, values)
}

/// 1 in f16.
const ONE: u16 = 0x3c00;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CODECS, Rows, decode, encode};

    #[test]
    fn integers_times_scales_are_what_blocks_decode_to() {
        let n = 1024;
        let values: Vec<f32> = (0..n).map(|i| testkit::normal(3, i)).collect();
        let mut n_types = 0;
        for codec in CODECS {
            let dtype = codec.dtype;
            let Some(form) = integer_form(dtype) else { continue };
            n_types += 1;
            assert_eq!(form.block_elems, dtype.block_elems() as usize);
            let n_blocks = n as usize / form.block_elems;
            let mut blocks = vec![0; n_blocks * dtype.block_bytes() as usize];
            let rows = Rows { values: &values, row_elems: n as usize, weights: None };
            encode(dtype, Level::Scalar, rows, &mut blocks).unwrap();
            let mut expected = vec![0.0; n as usize];
            decode(dtype, Level::Scalar, &blocks, &mut expected).unwrap();
            for level in Level::available() {
                let part = |which| {
                    let (mut values, mut scales) = (vec![0.0; n as usize], vec![0.0; n_blocks]);
                    let done = decode_integers(
                        dtype,
                        level,
                        which,
                        &blocks,
                        &mut Vec::new(),
                        &mut values,
                        &mut scales,
                    );
                    done.map(|()| (values, scales))
                };
                let (levels, d) = part(Integers::Levels).unwrap();
                let minima = part(Integers::Minima);
                assert_eq!(minima.is_ok(), form.min_elems.is_some(), "{dtype:?}");
                for i in 0..n as usize {
                    let block = i / form.block_elems;
                    assert!(levels[i].fract() == 0.0 && levels[i].abs() <= 4096.0, "{dtype:?} {}", levels[i]);
                    let mut value = f64::from(d[block]) * f64::from(levels[i]);
                    if let (Ok((minima, m)), Some(group)) = (&minima, form.min_elems) {
                        assert_eq!(minima[i], minima[i / group * group], "{dtype:?}");
                        assert!(minima[i].fract() == 0.0 && minima[i].abs() <= 63.0);
                        value += f64::from(m[block]) * f64::from(minima[i]);
                    }
                    // The codec rounds products and their sum.
                    let bound =
                        4.0 * f64::from(f32::EPSILON) * (value.abs() + f64::from(expected[i]).abs() + 1.0);
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
