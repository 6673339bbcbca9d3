//! Byte order of a file, and conversion.

use std::{borrow::Cow, fmt};

use gguf_types::DType;

/// Byte order of every number of a file, including tensor data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Endian {
    /// Least significant byte first: nearly every file.
    #[default]
    Little,
    /// Most significant byte first: files for s390x, for example.
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

impl Endian {
    /// Converts complete blocks of `dtype` from this order to little endian, which kernels read.
    pub fn to_little(self, dtype: DType, blocks: &[u8]) -> Cow<'_, [u8]> {
        let mut blocks = Cow::Borrowed(blocks);
        // Single bytes are the same in both orders.
        if self == Endian::Big && !dtype.swap_fields().is_empty() {
            swap_blocks(dtype, blocks.to_mut());
        }
        blocks
    }
}

/// Converts complete blocks of `dtype` to the other byte order, in place; its own inverse. Bytes after the
/// last complete block stay unchanged.
pub fn swap_blocks(dtype: DType, data: &mut [u8]) {
    let (fields, block_bytes) = (dtype.swap_fields(), dtype.block_bytes() as usize);
    match (fields, block_bytes) {
        // Plain numbers of one width: most of a float file, with loops that the compiler vectorizes.
        ([(0, 2)], 2) => reverse_each::<2>(data),
        ([(0, 4)], 4) => reverse_each::<4>(data),
        ([(0, 8)], 8) => reverse_each::<8>(data),
        _ => {
            for block in data.chunks_exact_mut(block_bytes) {
                for &(at, width) in fields {
                    block[at..at + width].reverse();
                }
            }
        }
    }
}

fn reverse_each<const N: usize>(data: &mut [u8]) {
    data.as_chunks_mut::<N>().0.iter_mut().for_each(|number| number.reverse());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapping_twice_changes_nothing() {
        for &dtype in DType::ALL {
            let data: Vec<u8> = (0..3 * dtype.block_bytes()).map(|i| (i % 251) as u8).collect();
            let mut swapped = data.clone();
            swap_blocks(dtype, &mut swapped);
            // Neighbors differ, so that each byte of a number moves, except the middle one of an odd width.
            let n_wide: usize = dtype.swap_fields().iter().map(|field| field.1).sum();
            let n_changed = data.iter().zip(&swapped).filter(|(a, b)| a != b).count();
            assert_eq!(n_changed, 3 * n_wide, "{dtype}");
            assert_eq!(&*Endian::Big.to_little(dtype, &swapped), data, "{dtype}");
            assert_eq!(&*Endian::Little.to_little(dtype, &data), data, "{dtype}");
        }
    }

    #[test]
    fn swapped_bytes_match_known_values() {
        let mut data = [1, 2, 3, 4, 5, 6, 7, 8];
        swap_blocks(DType::F32, &mut data);
        assert_eq!(data, [4, 3, 2, 1, 8, 7, 6, 5]);
        swap_blocks(DType::F32, &mut data[..7]);
        assert_eq!(data, [1, 2, 3, 4, 8, 7, 6, 5]);
    }
}
