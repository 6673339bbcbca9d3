//! Tensors that cannot be encoded without an importance matrix.

use gguf_types::DType;

use super::{Category, FileType};

/// True if a tensor of this name cannot be encoded to `dtype` without an importance matrix.
///
/// Source: `tensor_requires_imatrix` in `src/llama-quant.cpp`.
pub fn requires_imatrix(name: &str, dtype: DType, file_type: FileType) -> bool {
    let ends = matches!(Category::of(name), Category::TokenEmbd | Category::Output);
    !ends && (dtype.needs_imatrix() || (dtype == DType::Q2_K && file_type == FileType::Q2_K_S))
}
