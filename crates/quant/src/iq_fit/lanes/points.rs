//! A codebook in the layout of the lane search: lists of near points that can be read a vector at a time.

use crate::{grids::Place, iq_fit::lattice::Lattice};

/// Elements beyond the last point that reading a vector may access.
const PADDING: usize = 16;

/// Bits of a list's length in an [`entry`](Points::entry).
const LENGTH_BITS: u32 = 11;

/// Lists of the points near each code that is not in the codebook.
#[derive(Debug)]
pub struct Points {
    /// For each code: 0 if it is in the codebook, otherwise the start and length of its list.
    entries: Vec<u32>,
    /// (points) codes, list after list in the order of [`Codebook`], and padding.
    codes: Vec<u16>,
}

impl Points {
    /// All lists of the codebook of a search.
    pub fn of<const SUB: usize, const DIMS: usize, const LEVELS: usize>(
        lattice: &Lattice<SUB, DIMS, LEVELS>,
    ) -> Points {
        let (dims, bits) = (DIMS, Lattice::<SUB, DIMS, LEVELS>::BITS);
        let top = Lattice::<SUB, DIMS, LEVELS>::TOP as u16;
        let mut points = Points { entries: vec![0; 1 << (dims * bits)], codes: Vec::new() };
        for code in 0..points.entries.len() {
            let level = |dim: usize| (code >> (bits * dim)) as u16 & ((1 << bits) - 1);
            // Rounding never gives levels above the top.
            if (0..dims).any(|dim| level(dim) > top) {
                continue;
            }
            if let Place::OffGrid(near) = lattice.codebook.place(code as u16) {
                debug_assert!(near.len() < 1 << LENGTH_BITS);
                points.entries[code] = (points.codes.len() << LENGTH_BITS | near.len()) as u32;
                points.codes.extend(near);
            }
        }
        points.codes.extend([0; PADDING]);
        points
    }

    /// List of a code: 0 for codes in the codebook.
    #[inline(always)]
    pub fn entry(&self, code: u32) -> u32 {
        self.entries[code as usize]
    }

    /// The codes of an entry's list, followed by others, because a vector may be read at its last point.
    #[inline(always)]
    pub fn list(&self, entry: u32) -> (&[u16], usize) {
        let n = (entry & ((1 << LENGTH_BITS) - 1)) as usize;
        let start = (entry >> LENGTH_BITS) as usize;
        (&self.codes[start..start + n + PADDING], n)
    }
}
