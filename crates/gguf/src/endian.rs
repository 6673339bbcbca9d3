//! Byte order of a file, and the way from one to the other.

use std::fmt;

use tensor::DType;

/// The byte order of every number of a file, tensor data included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Endian {
    /// Least significant byte first: nearly every file.
    #[default]
    Little,
    /// Most significant byte first: files for s390x and the like.
    Big,
}

impl fmt::Display for Endian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Endian::Little => "little",
            Endian::Big => "big",
        })
    }
}

/// The numbers of more than one byte in a block of `dtype`, as (offset, width) in bytes;
/// `None` where nobody has said how a big-endian block of that type looks.
///
/// Source: `byteswap_tensors` of `gguf-py/gguf/scripts/gguf_convert_endian.py` (llama-cpp-python
/// 0.3.36) for the quantized types it lists. Q4_1 and Q2_K are built of the same parts (f16
/// pairs and bytes), as are Q3_K, Q5_K, IQ4_NL and the other types given here; types that
/// keep packed 32-bit or 16-bit codes in byte arrays are left out.
const fn wide_fields(dtype: DType) -> Option<&'static [(usize, usize)]> {
    Some(match dtype {
        DType::I8 | DType::MXFP4 | DType::NVFP4 => &[],
        DType::F16 | DType::BF16 | DType::I16 => &[(0, 2)],
        DType::F32 | DType::I32 => &[(0, 4)],
        DType::F64 | DType::I64 => &[(0, 8)],
        DType::Q1_0 | DType::Q2_0 | DType::Q4_0 | DType::Q8_0 | DType::IQ4_NL => &[(0, 2)],
        DType::Q4_1 | DType::Q4_K | DType::Q5_K => &[(0, 2), (2, 2)],
        DType::Q2_K => &[(80, 2), (82, 2)],
        DType::Q3_K => &[(108, 2)],
        DType::Q6_K => &[(208, 2)],
        DType::TQ1_0 => &[(52, 2)],
        DType::TQ2_0 => &[(64, 2)],
        _ => return None,
    })
}

/// Turns whole blocks of `dtype` into the other byte order, in place; its own inverse.
///
/// Returns false, with nothing changed, where the layout of the other byte order is not
/// defined by the reference's converter (Q5_0, Q5_1 and most IQ types, whose code words are
/// copied in the machine's order), or where `data` is not a whole number of blocks.
#[must_use]
pub fn swap_blocks(dtype: DType, data: &mut [u8]) -> bool {
    let Some(fields) = wide_fields(dtype) else { return false };
    let block_bytes = dtype.block_bytes() as usize;
    if !data.len().is_multiple_of(block_bytes) {
        return false;
    }
    for block in data.chunks_exact_mut(block_bytes) {
        for &(at, width) in fields {
            block[at..at + width].reverse();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_lies_in_its_block_and_swapping_twice_changes_nothing() {
        let mut n_defined = 0;
        for &dtype in DType::ALL {
            let data: Vec<u8> = (0..3 * dtype.block_bytes()).map(|i| (i % 251) as u8).collect();
            let mut swapped = data.clone();
            if swap_blocks(dtype, &mut swapped) {
                n_defined += 1;
                let n_wide: usize = wide_fields(dtype).unwrap().iter().map(|field| field.1).sum();
                let n_changed = data.iter().zip(&swapped).filter(|(a, b)| a != b).count();
                assert_eq!(n_changed, 3 * n_wide, "{dtype}");
                assert!(swap_blocks(dtype, &mut swapped));
            }
            assert_eq!(swapped, data, "{dtype}");
        }
        assert_eq!(n_defined, 23);
    }

    #[test]
    fn known_bytes() {
        let mut data = [1, 2, 3, 4, 5, 6, 7, 8];
        assert!(swap_blocks(DType::F32, &mut data));
        assert_eq!(data, [4, 3, 2, 1, 8, 7, 6, 5]);
        assert!(!swap_blocks(DType::F32, &mut data[..7]));
        assert!(!swap_blocks(DType::Q5_0, &mut [0; 22]));
    }
}
