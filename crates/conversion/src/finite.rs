//! Scans for values that are not finite.

use gguf_types::DType;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scan {
    /// Largest magnitude; meaningless if a value is not finite.
    pub(crate) max_abs: f32,
    pub(crate) first_bad: Option<usize>,
}

/// Magnitudes that every block format can represent: no format stores a scale or minimum larger than the
/// largest value of its block, and f16 represents up to 65504.
pub(crate) const SAFE_MAGNITUDE: f32 = 65504.0;

const EXPONENT: u32 = 0x7f80_0000;

/// Scans f32 values. Magnitudes are compared as integers, which order like the floats, with infinities and
/// NaNs largest. The loop has no branch, so that it is vectorized.
pub(crate) fn scan(values: &[f32]) -> Scan {
    let max = values.iter().fold(0u32, |max, value| max.max(value.to_bits() & 0x7fff_ffff));
    // An exponent of all ones is infinity or NaN, and larger than every other magnitude as an integer. So the
    // search runs only if there is one.
    let first_bad = if max < EXPONENT { None } else { values.iter().position(|value| !value.is_finite()) };
    Scan { max_abs: f32::from_bits(max), first_bad }
}

/// Scans stored bytes; `None` if the dtype's blocks have to be decoded.
pub(crate) fn scan_raw(dtype: DType, bytes: &[u8]) -> Option<Scan> {
    let scan16 = |exponent: u16, to_f32: fn(u16) -> f32| {
        // Clearing the sign bit gives the magnitude.
        let (halves, _) = bytes.as_chunks::<2>();
        let max = halves.iter().fold(0u16, |max, half| max.max(u16::from_le_bytes(*half) & 0x7fff));
        let is_bad = |half: &[u8; 2]| u16::from_le_bytes(*half) & exponent == exponent;
        let first_bad = if max < exponent { None } else { halves.iter().position(is_bad) };
        Scan { max_abs: to_f32(max), first_bad }
    };
    match dtype {
        DType::F32 => {
            let (words, _) = bytes.as_chunks::<4>();
            let max = words.iter().fold(0u32, |max, word| max.max(u32::from_le_bytes(*word) & 0x7fff_ffff));
            let is_bad = |word: &[u8; 4]| !f32::from_le_bytes(*word).is_finite();
            let first_bad = if max < EXPONENT { None } else { words.iter().position(is_bad) };
            Some(Scan { max_abs: f32::from_bits(max), first_bad })
        }
        // The magnitude of a half is unused: a stored half is copied.
        DType::F16 => Some(scan16(0x7c00, |_| 0.0)),
        DType::BF16 => Some(scan16(0x7f80, |half| f32::from_bits(u32::from(half) << 16))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bad_value_is_found_in_every_type() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 1, 16, 99] {
                let mut values: Vec<f32> = (0..100).map(|i| i as f32 - 50.0).collect();
                assert_eq!(scan(&values), Scan { max_abs: 50.0, first_bad: None });
                values[at] = bad;
                values[99] = bad;
                assert_eq!(scan(&values).first_bad, Some(at));
                let f32s: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                assert_eq!(scan_raw(DType::F32, &f32s).unwrap().first_bad, Some(at));
                let bf16s: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()[2..].to_vec()).collect();
                assert_eq!(scan_raw(DType::BF16, &bf16s).unwrap().first_bad, Some(at));
            }
        }
        // f16: 65504, then infinity, then a NaN with the sign bit.
        let halves = |halves: &[u16]| halves.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(scan_raw(DType::F16, &halves(&[0x7bff, 0xfbff])).unwrap().first_bad, None);
        assert_eq!(scan_raw(DType::F16, &halves(&[0x7bff, 0x7c00])).unwrap().first_bad, Some(1));
        assert_eq!(scan_raw(DType::F16, &halves(&[0xfe00, 0x7c00])).unwrap().first_bad, Some(0));
        assert_eq!(scan_raw(DType::Q4_0, &[0; 18]), None);
    }

    #[test]
    fn largest_magnitude_counts_negative_values() {
        assert_eq!(scan(&[1.0, -3.0, 2.0]).max_abs, 3.0);
        assert_eq!(scan(&[]), Scan { max_abs: 0.0, first_bad: None });
    }
}
