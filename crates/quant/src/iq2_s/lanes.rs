//! IQ2_S with vectors.

use std::sync::OnceLock;

use fearless_simd_macros::simd;

use super::scalar::{N_SUBS, SUB, encode_block, pack, recipe};
use crate::{
    Rows,
    iq_fit::lanes::{self, Lookup, Points},
};

/// Encodes rows.
#[simd]
pub fn encode<S: Lookup>(simd: S, rows: Rows<'_>, out: &mut [u8]) {
    static POINTS: OnceLock<Points> = OnceLock::new();
    let recipe = recipe();
    let points = POINTS.get_or_init(|| Points::new(recipe.lattice.book, 8, 2, 2));
    lanes::encode::<S, SUB, 8, 4, N_SUBS, { super::BYTES }>(
        simd,
        &recipe,
        points,
        rows,
        out,
        |choices, block| pack(recipe.lattice.book, choices, block),
        |values, importance, block| encode_block(&recipe, values, importance, block),
    );
}
