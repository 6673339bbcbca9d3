//! Blocks of 32 elements with importance weights, one block per lane: the common part of Q4_0, Q4_1, Q5_0 and
//! Q5_1.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{MAX_LANES, store_words, transpose};
use crate::{Rows, fit};

pub const ELEMS: usize = 32;
/// Rows whose mean squares are computed together.
const ROWS: usize = 16;

/// Encodes blocks of `B` bytes, `G` vectors of blocks at a time. `kernel(x, weights, words)` is the lane
/// kernel, where `weights` are those of the search; it returns the bits of the wild lanes of each vector.
/// `scalar(mean_square, values, importance, block)` encodes one block. `rows.weights` is one row.
#[inline(always)]
pub fn encode_weighted<S: Simd, const B: usize, const W: usize, const G: usize>(
    simd: S,
    rows: Rows<'_>,
    weights: &[f32],
    out: &mut [u8],
    mut kernel: impl FnMut(&[[S::f32s; ELEMS]; G], &[[S::f32s; ELEMS]; G], &mut [[S::u32s; W]; G]) -> [u64; G],
    scalar: impl Fn(f32, &[f32; ELEMS], &[f32; ELEMS], &mut [u8; B]),
) {
    const { assert!(W == B.div_ceil(4), "words cover the block") };
    let lanes = S::f32s::LEN;
    let weights = weights.as_chunks::<ELEMS>().0;
    let n_columns = weights.len();
    // `x` and `w` (G vectors, 32 elements, LEN blocks); `words` (G, W, LEN).
    let mut x = [[S::f32s::splat(simd, 0.0); ELEMS]; G];
    let mut w = x;
    let mut words = [[S::u32s::splat(simd, 0); W]; G];
    // If rows consist of complete vectors of blocks, the weights of a vector are equal in every row.
    let mut shared = Vec::new();
    if n_columns.is_multiple_of(lanes) {
        for first in (0..n_columns).step_by(lanes) {
            let mut columns = w[0];
            transpose(simd, weights, std::array::from_fn(|lane| first + lane % lanes), &mut columns);
            shared.push(columns);
        }
    }
    // In groups of 16 rows, whose mean squares are computed at once, one row per lane.
    let groups = rows.values.chunks(ROWS * rows.row_elems).zip(out.chunks_mut(ROWS * n_columns * B));
    for (values, out) in groups {
        let values = values.as_chunks::<ELEMS>().0;
        let blocks = out.as_chunks_mut::<B>().0;
        let mean_squares = mean_squares(simd, values, n_columns);
        let (mut row, mut column) = (0, 0);
        for (unit, blocks) in blocks.chunks_mut(G * lanes).enumerate() {
            let first = unit * G * lanes;
            // Position of each lane's block, as (row, column of blocks).
            let mut places = [[(0, 0); MAX_LANES]; G];
            for (at, place) in places.iter_mut().flat_map(|places| &mut places[..lanes]).enumerate() {
                *place = (row, column);
                // Lanes beyond the last block repeat it.
                if first + at + 1 < values.len() {
                    column += 1;
                    if column == n_columns {
                        (row, column) = (row + 1, 0);
                    }
                }
            }
            for g in 0..G {
                transpose(simd, values, places[g].map(|(row, column)| row * n_columns + column), &mut x[g]);
                // If shared, vectors begin at a multiple of LEN.
                match shared.get(places[g][0].1 / lanes) {
                    Some(shared) => w[g] = *shared,
                    None => transpose(simd, weights, places[g].map(|(_, column)| column), &mut w[g]),
                }
                let mean_squares = places[g].map(|(row, _)| mean_squares[row]);
                search_weights(simd, &x[g], &mean_squares, &mut w[g]);
            }
            let wild = kernel(&x, &w, &mut words);
            for (g, blocks) in blocks.chunks_mut(lanes).enumerate() {
                store_words::<S, B, W>(simd, &words[g], blocks);
                // Wild blocks are left to the scalar code.
                if wild[g] == 0 {
                    continue;
                }
                for (lane, block) in blocks.iter_mut().enumerate() {
                    if wild[g] >> lane & 1 == 1 {
                        let (row, column) = places[g][lane];
                        let index = row * n_columns + column;
                        scalar(mean_squares[row], &values[index], &weights[column], block);
                    }
                }
            }
        }
    }
}

/// [`fit::mean_square`] of up to [`ROWS`] rows of `n_columns` blocks, one row per lane.
#[simd]
fn mean_squares<S: Simd>(simd: S, values: &[[f32; ELEMS]], n_columns: usize) -> [f32; ROWS] {
    let lanes = S::f32s::LEN;
    let n_rows = values.len() / n_columns;
    let mut means = [0.0; ROWS];
    let mut x = [S::f32s::splat(simd, 0.0); ELEMS];
    for (group, means) in means.chunks_mut(lanes).enumerate().take(n_rows.div_ceil(lanes)) {
        // Each row is summed up first to last, like in the scalar code.
        let mut sum = S::f32s::splat(simd, 0.0);
        for column in 0..n_columns {
            let chosen =
                std::array::from_fn(|lane| (group * lanes + lane).min(n_rows - 1) * n_columns + column);
            transpose(simd, values, chosen, &mut x);
            for x in x {
                sum += x * x;
            }
        }
        (sum / S::f32s::splat(simd, (n_columns * ELEMS) as f32)).store_slice(means);
    }
    // The sum of two NaNs depends on the compiler, so only one function adds them.
    for (mean, row) in means.iter_mut().zip(values.chunks_exact(n_columns)) {
        if mean.is_nan() {
            *mean = fit::mean_square(row.as_flattened());
        }
    }
    means
}

/// [`fit::importance_weights`] instead of the importance.
#[simd]
fn search_weights<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    mean_squares: &[f32; MAX_LANES],
    importance: &mut [S::f32s; ELEMS],
) {
    let mean_square = S::f32s::from_slice(simd, &mean_squares[..S::f32s::LEN]);
    for i in 0..ELEMS {
        importance[i] *= (mean_square + x[i] * x[i]).sqrt();
    }
}

/// Puts the low 4 bits of 32 levels into words from byte `at` on: [`nibbles::pack`](crate::nibbles::pack).
#[simd]
pub fn put_nibbles<S: Simd, const W: usize>(
    _simd: S,
    levels: &[S::u32s; ELEMS],
    at: usize,
    words: &mut [S::u32s; W],
) {
    for i in 0..ELEMS / 2 {
        // Byte `at + i` contains elements `i` and `i + 16`.
        let byte = at + i;
        words[byte / 4] |= (levels[i] | (levels[i + 16] << 4)) << (8 * (byte as u32 % 4));
    }
}

/// Splits levels of 5 bits: keeps the low 4 and returns [`nibbles::fifth_bits`](crate::nibbles::fifth_bits).
#[simd]
pub fn take_fifth_bits<S: Simd>(simd: S, levels: &mut [S::u32s; ELEMS]) -> S::u32s {
    let (fifth, low) = (S::u32s::splat(simd, 16), S::u32s::splat(simd, 15));
    let mut bits = S::u32s::splat(simd, 0);
    for i in 0..ELEMS {
        // Bit 4 of element `i` moves to bit `i`.
        let bit = levels[i] & fifth;
        bits |= if i < 4 { bit >> (4 - i as u32) } else { bit << (i as u32 - 4) };
        levels[i] &= low;
    }
    bits
}
