//! Searches that the IQ types share.
//!
//! `lattice` is the scale search of IQ2 and IQ3 (magnitudes on a grid, separate signs), `ternary` that of IQ1
//! (sorted values split in three), `nonlinear` that of IQ4 (one table of 16 values).
//!
//! All sums run in the reference's order, product by product. If a product depends only on an element and its
//! level, it is read from a table that was filled with the same operations. A lane kernel can therefore
//! replace any single function.

pub mod lanes;
pub mod lattice;
pub mod nonlinear;
pub mod ternary;

use crate::round::nearest_int;

pub const SUPER: usize = 256;

/// The larger of two like the reference's `MAX`: the second if they do not compare.
#[inline(always)]
pub fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The candidate code with the least weighted squared distance `sum w * (scale * q - x)^2`; the first of equals.
///
/// `levels[l]` is the `q` of level `l`; levels have `log2(LEVELS)` bits in a code. The reference aborts if no
/// distance is below the largest f32 (values or weights that are not finite, or close to overflow); here the
/// first candidate is used then.
///
/// Source: `iq2_find_best_neighbour`, `iq3_find_best_neighbour`, `iq1_find_best_neighbour2` in
/// `ggml/src/ggml-quants.c`.
#[inline(always)]
pub fn nearest_point<const DIMS: usize, const LEVELS: usize>(
    candidates: &[u16],
    values: &[f32; DIMS],
    weights: &[f32; DIMS],
    scale: f32,
    levels: &[f32; LEVELS],
) -> u16 {
    // Cost of each level in each dimension: at most 32 products, for 8 to 300 candidates.
    let mut costs = [[0.0f32; LEVELS]; DIMS];
    for dim in 0..DIMS {
        for level in 0..LEVELS {
            // `w (d q - x)^2`, in the order of the reference.
            let diff = scale * levels[level] - values[dim];
            costs[dim][level] = weights[dim] * diff * diff;
        }
    }
    let bits = LEVELS.trailing_zeros();
    let mut best = f32::MAX;
    let mut found = candidates[0];
    for &code in candidates {
        let mut distance = 0.0;
        for (dim, costs) in costs.iter().enumerate() {
            distance += costs[usize::from(code >> (bits * dim as u32)) & (LEVELS - 1)];
        }
        if distance < best {
            best = distance;
            found = code;
        }
    }
    found
}

/// The 4-bit or 3-bit integer for a sub-block's scale: `round((id * scale - 1) / 2)` in `0..=top`.
#[inline(always)]
pub fn odd_scale(id: f32, scale: f32, top: i32) -> u8 {
    nearest_int(0.5 * (id * scale - 1.0)).clamp(0, top) as u8
}

#[cfg(test)]
mod tests {
    use gguf_testkit::{Data, Importance};

    use crate::{CODECS, Level, Rows, encode};

    /// The reference aborts or reads past an array for overflowing squares, infinities and NaN; these codecs
    /// must still terminate, and a row's bytes must not depend on earlier rows.
    #[test]
    fn any_value_encodes_and_rows_are_independent() {
        const ROW: usize = 512;
        let codecs = CODECS.iter().filter(|codec| codec.dtype.name().starts_with("iq"));
        let mut n_codecs = 0;
        for codec in codecs {
            n_codecs += 1;
            let row_bytes = ROW / codec.dtype.block_elems() as usize * codec.dtype.block_bytes() as usize;
            for (seed, data) in [Data::Extreme, Data::Bits, Data::Nasty].into_iter().enumerate() {
                let values = data.values(seed as u64, 32 * ROW);
                for importance in Importance::ALL {
                    let weights = importance.weights(seed as u64, ROW);
                    let encode = |values: &[f32]| {
                        let rows = Rows { values, row_elems: ROW, weights: Some(&weights) };
                        let mut out = vec![0; values.len() / ROW * row_bytes];
                        encode(codec.dtype, Level::Scalar, rows, &mut out).unwrap();
                        out
                    };
                    let together = encode(&values);
                    let apart: Vec<u8> = values.chunks(ROW).flat_map(encode).collect();
                    assert!(together == apart, "{} {}", codec.dtype, data.name());
                }
            }
        }
        assert_eq!(n_codecs, 9);
    }
}
