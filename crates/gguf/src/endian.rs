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

/// Turns whole blocks of `dtype` into the other byte order, in place; its own inverse.
///
/// Returns false, with nothing changed, where the layout of the other byte order is not
/// defined by the reference's converter (Q5_0, Q5_1 and most IQ types, whose code words are
/// copied in the machine's order), or where `data` is not a whole number of blocks.
#[must_use]
pub fn swap_blocks(dtype: DType, data: &mut [u8]) -> bool {
    let Some(fields) = dtype.swap_fields() else { return false };
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
                let n_wide: usize = dtype.swap_fields().unwrap().iter().map(|field| field.1).sum();
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
