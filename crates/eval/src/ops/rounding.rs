//! Inputs of products as the reference's CPU kernels see them.
//!
//! Before a product with a weight, those round the input to the type that the weight's kernel multiplies with: 8 bits
//! in blocks of 32 or 256 for quantized weights, half precision for halves. Here the products stay
//! in f32, and only the rounding is repeated: encoded, and decoded again.
//!
//! Source: `vec_dot_type` of `type_traits_cpu` in `ggml/src/ggml-cpu/ggml-cpu.c`, and the caches of
//! keys and values in f16 (`llama_context_default_params`), llama.cpp of llama-cpp-python 0.3.36. Its vector kernels
//! for 8 bits round halves to even where its plain ones, and these, round them away from zero.

use ndarray::ArrayView2;
use quant::Level;
use rayon::prelude::*;
use tensor::DType;

use super::Rows;

/// The type that the reference rounds inputs to before it multiplies them with weights of `weight`; none where it
/// takes them as they are.
pub(crate) fn input_type(weight: DType) -> Option<DType> {
    match weight {
        DType::F16 | DType::BF16 => Some(weight),
        DType::Q4_1 | DType::Q5_1 => Some(DType::Q8_1),
        DType::Q4_0
        | DType::Q5_0
        | DType::Q8_0
        | DType::IQ4_NL
        | DType::MXFP4
        | DType::NVFP4
        | DType::Q1_0
        | DType::Q2_0 => Some(DType::Q8_0),
        other => (other.block_elems() == 256).then_some(DType::Q8_K),
    }
}

/// `x` (n_rows, width) with every element rounded to what `dtype` can hold, written to `out`.
pub(crate) fn round_into(x: ArrayView2<'_, f32>, dtype: DType, out: &mut Rows) {
    const ROWS: usize = 16;
    let (width, level) = (x.ncols().max(1), Level::detect());
    let x = x.to_slice().expect("activations are contiguous");
    let out = out.as_slice_mut().expect("activations are contiguous");
    let n_bytes = |n: usize| n / dtype.block_elems() as usize * dtype.block_bytes() as usize;
    out.par_chunks_mut(width * ROWS).zip(x.par_chunks(width * ROWS)).for_each_init(
        Vec::new,
        |blocks, (out, x)| {
            blocks.resize(n_bytes(x.len()), 0);
            let rows = quant::Rows { values: x, row_elems: width, weights: None };
            quant::encode(dtype, level, rows, blocks)
                .expect("weights of this type have rows of whole blocks");
            quant::decode(dtype, level, blocks, out).expect("what was encoded decodes");
        },
    );
}

/// Every element rounded to what `dtype` can hold.
pub(crate) fn round(rows: &mut Rows, dtype: DType) {
    let x = rows.clone();
    round_into(x.view(), dtype, rows);
}
