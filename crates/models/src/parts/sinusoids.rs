//! Positions as sines and cosines.
//!
//! The reference computes them in single precision with torch, whose `exp`, `sin` and `cos` differ between processors in the
//! last bit. Here every operation in single precision is correctly rounded.

use gguf_layout::projector::prelude::*;

/// Maximum width of a table, for configs that state an absurd one.
const MAX_CHANNELS: u64 = 1 << 14;

/// Table of positions (n_positions, n_channels), row by row: sines of the position at frequencies from 1 to 1 / 10000, then
/// cosines.
///
/// Source: `Qwen25AudioModel.generate_extra_tensors` in `conversion/qwenvl.py`.
///
/// # Errors
///
/// [`ArchError::BadKey`] at `key` for a width that is odd, below 4 or above 16384.
pub fn sinusoids(key: &str, n_positions: u16, n_channels: u64) -> Result<Vec<f32>, ArchError> {
    if !(4..=MAX_CHANNELS).contains(&n_channels) || !n_channels.is_multiple_of(2) {
        return Err(bad(key, &n_channels.into(), "an even number from 4 to 16384"));
    }
    let n_frequencies = n_channels / 2;
    let increment = (10_000f64.ln() / (n_frequencies - 1) as f64) as f32;
    let frequencies: Vec<f32> =
        (0..n_frequencies).map(|index| f64::from(-increment * index as f32).exp() as f32).collect();
    let mut table = Vec::with_capacity(usize::from(n_positions) * frequencies.len() * 2);
    for position in 0..n_positions {
        let angles = || frequencies.iter().map(|frequency| f64::from(f32::from(position) * frequency));
        table.extend(angles().map(|angle| angle.sin() as f32));
        table.extend(angles().map(|angle| angle.cos() as f32));
    }
    Ok(table)
}
