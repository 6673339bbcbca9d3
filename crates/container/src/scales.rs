//! Scales next to the blocks of a matrix.

/// True if llama.cpp reads `MATRIX.scale` and `MATRIX.input_scale` next to `MATRIX.weight`, for any
/// architecture; `matrix` is the tensor name without `.weight`.
///
/// Source: the pass after `load_arch_tensors` in `load_tensors`, `src/llama-model.cpp` (llama-cpp-python
/// 0.3.36).
///
/// # Examples
/// ```
/// assert!(gguf_container::may_have_scale("blk.0.attn_q") && gguf_container::may_have_scale("output"));
/// assert!(!gguf_container::may_have_scale("blk.0.ffn_gate_inp") && !gguf_container::may_have_scale("attn_q"));
/// ```
pub fn may_have_scale(matrix: &str) -> bool {
    let part = gguf_types::layer_and_part(matrix).map(|(_, part)| part);
    part.map_or(matrix == "output", |part| OF_LAYERS.contains(&part))
}

/// Matrices of a layer that may have scales.
const OF_LAYERS: [&str; 21] = [
    "attn_gate",
    "attn_k",
    "attn_output",
    "attn_q",
    "attn_qkv",
    "attn_v",
    "ffn_down",
    "ffn_down_exps",
    "ffn_down_shexp",
    "ffn_gate",
    "ffn_gate_exps",
    "ffn_gate_shexp",
    "ffn_up",
    "ffn_up_exps",
    "ffn_up_shexp",
    "nextn.eh_proj",
    "nextn.shared_head_head",
    "ssm_alpha",
    "ssm_beta",
    "ssm_in",
    "ssm_out",
];
