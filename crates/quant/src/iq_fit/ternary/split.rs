//! Common steps before and after the searches of the IQ1_S and IQ1_M lane kernels: order, prefixes, levels.
//!
//! **A search may start late.** The reference accepts a split if `sum_qx^2 > best * sum_q2`, first to last.
//! If `best` starts at any number that the best split beats by more than all rounding errors, the search ends
//! as if it had started at the smallest float: let M be the larger of the values of the two searches. Both
//! accept a split that beats M by more than rounding, and from then on they are equal. Otherwise M grows by a
//! rounding error for each split that the late search accepts, and cannot reach the best split within
//! [`MAX_TAKEN`] splits.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

/// Margin below the score of any split at which a search may start.
pub const START: f32 = 1.0 - 1.0 / 4096.0;
/// Maximum number of splits that a search may accept after that: each can change it by 12 half units in the
/// last place.
pub const MAX_TAKEN: u32 = 200;

/// The ranks of ascending values, equal ones in the order of their index.
#[simd]
pub fn ranks<S: Simd, const N: usize>(simd: S, values: &[S::f32s; N], ranks: &mut [S::u32s; N]) {
    for (i, rank) in ranks.iter_mut().enumerate() {
        *rank = S::u32s::splat(simd, i as u32);
    }
    let (zero, one) = (S::u32s::splat(simd, 0), S::u32s::splat(simd, 1));
    for i in 0..N {
        let value = values[i];
        let mut rank = ranks[i];
        for j in i + 1..N {
            let step = values[j].simd_lt(value).select(one, zero);
            rank += step;
            ranks[j] -= step;
        }
        ranks[i] = rank;
    }
}
