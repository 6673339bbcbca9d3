//! The 4-bit floats that MXFP4 and NVFP4 share: a sign, 2 bits of exponent, 1 bit of mantissa.

/// All 16 values, doubled, so that they are integers (`kvalues_mxfp4` in `ggml/src/ggml-common.h`).
pub const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The index of the value nearest to each number, the first of equals; so minus zero is never chosen.
///
/// Source: `best_index_mxfp4` in `ggml/src/ggml-quants.c`.
#[inline(always)]
pub fn nearest<const N: usize>(numbers: &[f32; N], scale: f32) -> [u8; N] {
    let mut indices = [0; N];
    // Eight at a time, so that all that the scan keeps fits in registers.
    for (numbers, indices) in numbers.as_chunks::<8>().0.iter().zip(indices.as_chunks_mut::<8>().0) {
        let mut best = [0u32; 8];
        let mut best_error = numbers.map(|x| (0.0 * scale - x).abs());
        // Index 8, minus zero, is never nearer than zero; skipping it was slower (10 for 6 ns an element).
        for index in 1..16 {
            let value = f32::from(VALUES[index]) * scale;
            for i in 0..8 {
                let error = (value - numbers[i]).abs();
                let better = error < best_error[i];
                best[i] = if better { index as u32 } else { best[i] };
                best_error[i] = if better { error } else { best_error[i] };
            }
        }
        *indices = best.map(|index| index as u8);
    }
    indices
}
