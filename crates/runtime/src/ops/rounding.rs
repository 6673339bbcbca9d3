//! Inputs of products as the reference's CPU kernels see them.
//!
//! Before a product with a weight, those round the input to the type that the weight's kernel multiplies with: 8 bits
//! in blocks of 32 or 256 for quantized weights, half precision for halves. Blocks of integers are multiplied as integers
//! ([`quantize`]); for all others products stay in f32, and only the rounding is repeated: encoded, and decoded again.
//!
//! Source: that of [`DType::activation_dtype`], and the caches of keys and values in f16
//! (`llama_context_default_params`), llama.cpp of llama-cpp-python 0.3.36.

use gguf_products::integers::{BlockForm, Quants};
use gguf_quant::Level;
use gguf_types::{
    DType,
    half::{f16_to_f32, f32_to_f16},
};
use ndarray::ArrayView2;
use rayon::prelude::*;

use super::{Rows, vectorize};

/// `x` (n_rows, width) with every element rounded to what `dtype` can represent, written to `out`.
pub fn round_into(x: ArrayView2<'_, f32>, dtype: DType, out: &mut Rows) {
    const ROWS: usize = 16;
    let (width, level) = (x.ncols().max(1), Level::detect());
    let x = x.to_slice().expect("the input of products is whole rows");
    let out = out.as_mut_slice();
    if matches!(dtype, DType::Q8_0 | DType::Q8_1) {
        return out.par_chunks_mut(width * ROWS).zip(x.par_chunks(width * ROWS)).for_each(|(out, x)| {
            vectorize(
                #[inline(always)]
                || round_to_eight_bits(x, out),
            );
        });
    }
    // The other types round as files are written, so that the codecs do it: to bytes and back.
    let n_bytes = |n: usize| n / dtype.block_elems() as usize * dtype.block_bytes() as usize;
    out.par_chunks_mut(width * ROWS).zip(x.par_chunks(width * ROWS)).for_each_init(
        Vec::new,
        |blocks, (out, x)| {
            blocks.resize(n_bytes(x.len()), 0);
            let rows = gguf_quant::Rows { values: x, row_elems: width, weights: None };
            gguf_quant::encode(dtype, level, rows, blocks)
                .expect("weights of this type have rows of whole blocks");
            gguf_quant::decode(dtype, level, blocks, out).expect("what was encoded decodes");
        },
    );
}

/// Blocks of 32 rounded as the reference's vector kernels for x86-64 do it, which differs from files: ties to
/// even, and steps by a separate factor.
///
/// Source: `quantize_row_q8_0` and `quantize_row_q8_1` in `ggml/src/ggml-cpu/arch/x86/quants.c`.
#[inline(always)]
fn round_to_eight_bits(x: &[f32], out: &mut [f32]) {
    for (x, out) in x.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let (scale, steps) = scale_and_steps(x);
        for (out, x) in out.iter_mut().zip(x) {
            *out = (x * steps).round_ties_even() * scale;
        }
    }
}

/// The scale that a block stores, `d = f16(max |x| / 127)`, and the factor that it is rounded by, `127 / max |x|`, which is not `1 / d`.
#[inline(always)]
fn scale_and_steps(x: &[f32; 32]) -> (f32, f32) {
    // The largest absolute value among numbers. As integers floats without a sign have the same order, and compilers may
    // look for the largest in any order, so in vectors.
    let largest = x.iter().fold(0, |most: u32, x| {
        let bits = x.abs().to_bits();
        most.max(if bits > f32::INFINITY.to_bits() { 0 } else { bits })
    });
    let largest = f32::from_bits(largest);
    let scale = f16_to_f32(f32_to_f16(largest / 127.0));
    (scale, if largest == 0.0 { 0.0 } else { 127.0 / largest })
}

/// `x` (n_rows, width) rounded to 8 bits as `dtype` has it, for weights whose blocks have this form.
pub fn quantize(x: ArrayView2<'_, f32>, dtype: DType, form: BlockForm) -> Quants {
    // Enough work for one task, few enough that all threads have some.
    const ROWS: usize = 8;
    let (width, level) = (x.ncols(), Level::detect());
    let mut quants = Quants::zeros(level, form, x.nrows(), width);
    let x = x.to_slice().expect("the input of products is whole rows");
    let parts = quants.parts_mut(ROWS).into_par_iter().zip(x.par_chunks(width.max(1) * ROWS));
    parts.for_each_init(Vec::new, |blocks, (part, x)| {
        if dtype != DType::Q8_K {
            return vectorize(
                #[inline(always)]
                || {
                    let rows = x.as_chunks::<32>().0.iter().zip(part.values.as_chunks_mut::<32>().0);
                    for ((x, values), scale) in rows.zip(&mut *part.scales) {
                        *scale = not_finite_if_any_is(x, eight_bits(x, values));
                    }
                    part.finish();
                },
            );
        }
        // f32 scale, then the integers: the codec rounds as the reference does.
        let n_bytes = dtype.block_bytes() as usize;
        blocks.resize(part.scales.len() * n_bytes, 0);
        let rows = gguf_quant::Rows { values: x, row_elems: form.elems, weights: None };
        gguf_quant::encode(dtype, level, rows, blocks)
            .expect("weights of this type have rows of whole blocks");
        vectorize(
            #[inline(always)]
            || {
                let blocks = blocks.chunks_exact(n_bytes).zip(x.chunks_exact(form.elems));
                let values = part.values.chunks_exact_mut(form.elems);
                for (((block, x), values), scale) in blocks.zip(values).zip(&mut *part.scales) {
                    let found = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
                    *scale = not_finite_if_any_is(x, found);
                    values.iter_mut().zip(&block[4..]).for_each(|(value, byte)| *value = *byte as i8);
                }
                part.finish();
            },
        );
    });
    quants
}

/// One block of 32 rounded to integers, and their scale.
#[inline(always)]
fn eight_bits(x: &[f32; 32], out: &mut [i8; 32]) -> f32 {
    // 1.5 * 2^23: adding it rounds halves to even and leaves the integer, which is at most 127, in the low bits.
    const TO_INTEGER: f32 = 12_582_912.0;
    let (scale, steps) = scale_and_steps(x);
    for (out, x) in out.iter_mut().zip(x) {
        *out = (x * steps + TO_INTEGER).to_bits() as i8;
    }
    scale
}

/// NaN has no integer: its block gets a NaN scale, so that no sum hides it.
#[inline(always)]
fn not_finite_if_any_is(x: &[f32], scale: f32) -> f32 {
    let largest = x.iter().fold(0, |most: u32, x| most.max(x.abs().to_bits()));
    if largest < f32::INFINITY.to_bits() { scale } else { f32::NAN }
}

/// Every element rounded to what `dtype` can represent.
pub fn round(rows: &mut Rows, dtype: DType) {
    // In and out are the same rows.
    let x = rows.clone();
    round_into(x.view(), dtype, rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 1 and of f16(2 / 127): halves go to the even step, and files would have them elsewhere.
    #[test]
    fn q8_rounding_matches_vector_kernels() {
        let mut x = Rows::zeros(2, 32);
        for (i, value) in [127.0, 0.5, 1.5, -2.5, 2.500_001].into_iter().enumerate() {
            x[[0, i]] = value;
        }
        x[[1, 0]] = -2.0;
        x[[1, 1]] = 1.0;
        let mut out = Rows::zeros(2, 32);
        round_into(x.view(), DType::Q8_0, &mut out);
        assert_eq!(out.row(0).to_vec()[..6], [127.0, 0.0, 2.0, -2.0, 3.0, 0.0]);
        let step = 0.015_747_07;
        assert_eq!(out.row(1).to_vec()[..3], [-127.0 * step, 64.0 * step, 0.0]);
    }
}
