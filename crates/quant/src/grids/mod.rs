//! Codebooks of the IQ types: the existing points, and the points near a missing one.
//!
//! A point is a short vector of small levels (8 levels of 0..3 or 4 levels of 0..8) packed into a `u16`, its
//! *code*; level `i` is in bits `BITS * i`. Only some codes are in the codebook and have an index, which a
//! block stores. The encoder's search rounds to any code and, if that code is not in the codebook, looks
//! through the list of codebook points around it. The lists are built once, on first use.
//!
//! Source: `iq2xs_init_impl`, `iq3xs_init_impl` in `ggml/src/ggml-quants.c` of llama.cpp (as vendored in
//! llama-cpp-python 0.3.36). The reference orders neighbors by (distance, index): its comparators break ties
//! by the index, so the result does not depend on the library's `qsort`.

mod iq1;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

/// Decoded magnitudes of IQ2_XXS, by index (`iq2xxs_grid`).
pub static IQ2_XXS_VALUES: [[u8; 8]; 256] = expand(&iq2_xxs::CODES, &[8, 25, 43, 0]);
/// Decoded magnitudes of IQ2_XS, by index (`iq2xs_grid`).
pub static IQ2_XS_VALUES: [[u8; 8]; 512] = expand(&iq2_xs::CODES, &[8, 25, 43, 0]);
/// Decoded magnitudes of IQ2_S, by index (`iq2s_grid`).
pub static IQ2_S_VALUES: [[u8; 8]; 1024] = expand(&iq2_s::CODES, &[8, 25, 43, 0]);
/// Decoded magnitudes of IQ3_XXS, by index (`iq3xxs_grid`).
pub static IQ3_XXS_VALUES: [[u8; 4]; 256] = expand(&iq3_xxs::CODES, &[4, 12, 20, 28, 36, 44, 52, 62]);
/// Decoded magnitudes of IQ3_S, by index (`iq3s_grid`).
pub static IQ3_S_VALUES: [[u8; 4]; 512] = expand(&iq3_s::CODES, &[1, 3, 5, 7, 9, 11, 13, 15]);
/// Decoded values of IQ1_S and IQ1_M, by index (`iq1s_grid`): -1, 0 and 1 in two's complement.
pub static IQ1_VALUES: [[u8; 8]; 2048] = expand(&iq1::CODES, &[255, 0, 1, 0]);

/// The 16 values of IQ4_NL and IQ4_XS (`kvalues_iq4nl` in `ggml/src/ggml-common.h`).
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The eight signs of a 7-bit field: the eighth makes the number of set bits even.
///
/// Source: `ksigns_iq2xs` in `ggml/src/ggml-common.h`.
#[inline(always)]
pub const fn even_signs(field: u8) -> u8 {
    let field = field & 127;
    field | (((field.count_ones() & 1) as u8) << 7)
}

/// Values of each code, level by level.
const fn expand<const N: usize, const DIMS: usize, const LEVELS: usize>(
    codes: &[u16; N],
    levels: &[u8; LEVELS],
) -> [[u8; DIMS]; N] {
    let mut points = [[0; DIMS]; N];
    let mut index = 0;
    while index < N {
        let mut dim = 0;
        while dim < DIMS {
            let level = (codes[index] >> (LEVELS.trailing_zeros() as usize * dim)) as usize & (LEVELS - 1);
            points[index][dim] = levels[level];
            dim += 1;
        }
        index += 1;
    }
    points
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    OnGrid,
    /// Not in the codebook: the codes of the nearest points, nearest first, equal distances in index order.
    /// Never empty.
    OffGrid(&'a [u16]),
}

struct Shape {
    codes: &'static [u16],
    dims: u32,
    bits: u32,
    /// Number of levels in use.
    levels: u16,
    /// Number of distinct distances in a neighbor list.
    n_distances: usize,
}

/// A codebook with its neighbor lists.
#[derive(Debug)]
pub struct Codebook {
    codes: &'static [u16],
    /// For each code: the index, or `-1 - position` of its list in `neighbours`.
    map: Vec<i32>,
    /// Lists, concatenated: length, then that many codes.
    neighbours: Vec<u16>,
}

impl Codebook {
    pub fn iq2_xxs() -> &'static Codebook {
        static CODEBOOK: OnceLock<Codebook> = OnceLock::new();
        CODEBOOK.get_or_init(|| {
            build(&Shape { codes: &iq2_xxs::CODES, dims: 8, bits: 2, levels: 3, n_distances: 2 })
        })
    }

    pub fn iq2_xs() -> &'static Codebook {
        static CODEBOOK: OnceLock<Codebook> = OnceLock::new();
        CODEBOOK.get_or_init(|| {
            build(&Shape { codes: &iq2_xs::CODES, dims: 8, bits: 2, levels: 3, n_distances: 2 })
        })
    }

    pub fn iq2_s() -> &'static Codebook {
        static CODEBOOK: OnceLock<Codebook> = OnceLock::new();
        CODEBOOK.get_or_init(|| {
            build(&Shape { codes: &iq2_s::CODES, dims: 8, bits: 2, levels: 3, n_distances: 1 })
        })
    }

    /// The codebook that IQ1_S and IQ1_M share.
    pub fn iq1() -> &'static Codebook {
        static CODEBOOK: OnceLock<Codebook> = OnceLock::new();
        CODEBOOK
            .get_or_init(|| build(&Shape { codes: &iq1::CODES, dims: 8, bits: 2, levels: 3, n_distances: 3 }))
    }

    pub fn iq3_xxs() -> &'static Codebook {
        static CODEBOOK: OnceLock<Codebook> = OnceLock::new();
        CODEBOOK.get_or_init(|| {
            build(&Shape { codes: &iq3_xxs::CODES, dims: 4, bits: 3, levels: 8, n_distances: 2 })
        })
    }

    pub fn iq3_s() -> &'static Codebook {
        static CODEBOOK: OnceLock<Codebook> = OnceLock::new();
        CODEBOOK.get_or_init(|| {
            build(&Shape { codes: &iq3_s::CODES, dims: 4, bits: 3, levels: 8, n_distances: 3 })
        })
    }

    /// Place of a code.
    ///
    /// # Panics
    /// If a level of the code is out of the codebook's range.
    #[inline(always)]
    pub fn place(&self, code: u16) -> Place<'_> {
        let entry = self.map[usize::from(code)];
        if entry >= 0 {
            return Place::OnGrid;
        }
        let list = &self.neighbours[(-1 - entry) as usize..];
        Place::OffGrid(&list[1..=usize::from(list[0])])
    }

    /// The index of a code that is in the codebook.
    ///
    /// # Panics
    /// If the code is not in the codebook.
    #[inline(always)]
    pub fn index(&self, code: u16) -> u16 {
        let entry = self.map[usize::from(code)];
        assert!(entry >= 0, "code {code:#x} is not in the codebook");
        entry as u16
    }

    #[inline(always)]
    pub fn code(&self, index: u16) -> u16 {
        self.codes[usize::from(index)]
    }
}

/// Builds the index map and the neighbor lists.
///
/// A distance is the sum of squared level differences. It is computed from two tables of half codes, so the
/// largest codebook (2048 points, 4513 other codes) takes about 20 ms.
fn build(shape: &Shape) -> Codebook {
    let mask = (1u16 << shape.bits) - 1;
    let level = |code: u16, dim: u32| (code >> (shape.bits * dim)) & mask;
    let half_bits = shape.bits * shape.dims / 2;
    let n_halves = 1usize << half_bits;
    let half = |code: u16| (usize::from(code) & (n_halves - 1), usize::from(code >> half_bits));

    // (n_halves, n_halves) squared distances between half codes.
    let mut distances = vec![0u16; n_halves * n_halves];
    for (position, distance) in distances.iter_mut().enumerate() {
        let (a, b) = ((position / n_halves) as u16, (position % n_halves) as u16);
        *distance = (0..shape.dims / 2).map(|dim| level(a, dim).abs_diff(level(b, dim)).pow(2)).sum();
    }

    let n_codes = 1usize << (shape.bits * shape.dims);
    let mut map = vec![-1; n_codes];
    for (index, &code) in shape.codes.iter().enumerate() {
        map[usize::from(code)] = index as i32;
    }

    let mut neighbours = Vec::new();
    let mut near: Vec<(u16, u16)> = Vec::with_capacity(shape.codes.len());
    for code in 0..n_codes {
        let in_use = (0..shape.dims).all(|dim| level(code as u16, dim) < shape.levels);
        if map[code] >= 0 || !in_use {
            continue;
        }
        let (low, high) = half(code as u16);
        let low = &distances[low * n_halves..][..n_halves];
        let high = &distances[high * n_halves..][..n_halves];
        // In index order, then a stable sort by distance of those that are near enough: equal to the
        // reference's sort by (distance, index).
        near.clear();
        near.extend(shape.codes.iter().map(|&point| {
            let (point_low, point_high) = half(point);
            (low[point_low] + high[point_high], point)
        }));
        let mut farthest = 0;
        // The `n_distances` smallest distinct distances, ascending.
        for nth in 0..shape.n_distances {
            let next = near.iter().map(|&(distance, _)| distance).filter(|&d| nth == 0 || d > farthest).min();
            farthest = next.unwrap_or(farthest);
        }
        near.retain(|&(distance, _)| distance <= farthest);
        near.sort_by_key(|&(distance, _)| distance);
        // Negative, to distinguish lists from indices.
        map[code] = -1 - neighbours.len() as i32;
        neighbours.push(near.len() as u16);
        neighbours.extend(near.iter().map(|&(_, point)| point));
    }
    Codebook { codes: shape.codes, map, neighbours }
}
