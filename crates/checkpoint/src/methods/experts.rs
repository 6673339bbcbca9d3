//! Splits stacks of experts in MLX's form.
//!
//! mlx-lm stacks the experts of a layer, `[experts, out, in]`, and renames them (`sanitize` in
//! `models/*.py`): Mixtral's `block_sparse_moe.experts.N.w1`, `.w3`, `.w2` and all others'
//! `mlp.experts.N.gate_proj`, `.up_proj`, `.down_proj` become `switch_mlp.gate_proj`, `.up_proj`,
//! `.down_proj`. Architectures expect the original names.

use std::{ops::Range, sync::Arc};

use gguf_types::{DType, StoredBlocks};

use crate::{Dtype, Part, ReadError, Region, Repacks, Span, Stored, Tensor};

/// Some rows of a tensor, presented as a separate tensor.
#[derive(Debug)]
struct RowsOf {
    whole: Arc<dyn Stored>,
    first_row: u64,
    stored_blocks: Option<StoredBlocks>,
}

impl RowsOf {
    fn place(&self, rows: Range<u64>) -> Range<u64> {
        self.first_row + rows.start..self.first_row + rows.end
    }
}

impl Stored for RowsOf {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        self.whole.read(parts, Region { rows: self.place(rows), columns }, out)
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        self.whole.spans(self.place(rows))
    }

    fn panel_rows(&self) -> u64 {
        self.whole.panel_rows()
    }

    fn codes(&self) -> Option<Dtype> {
        self.whole.codes()
    }

    fn description(&self) -> Option<String> {
        self.whole.description()
    }

    fn stored_blocks(&self) -> Option<&StoredBlocks> {
        self.stored_blocks.as_ref()
    }

    fn repacks_to(&self, parts: &[Part]) -> Result<Repacks, ReadError> {
        self.whole.repacks_to(parts)
    }

    fn repack(
        &self,
        parts: &[Part],
        dtype: DType,
        rows: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.whole.repack(parts, dtype, self.place(rows), out)
    }
}

/// True if the experts of a model have biases, like only those of gpt-oss: their stacks are not split, and
/// MXFP4 stays in blocks.
pub(super) fn have_biases(tensors: &[Tensor]) -> bool {
    let is_bias = |name: &str| name.ends_with("_proj.bias") || name.ends_with("_proj_bias");
    tensors.iter().any(|tensor| tensor.name.contains(".experts.") && is_bias(&tensor.name))
}

/// Replaces every stack by one tensor per expert. With `named_experts`, stacks may also be named
/// `mlp.experts`, for example in AFMoE and dots.llm1.
pub(super) fn split_experts(tensors: &mut Vec<Tensor>, named_experts: bool) {
    let stacks = std::mem::take(tensors);
    for stack in stacks {
        match names_of(&stack, named_experts) {
            Some((before, after)) => tensors.extend(experts_of(&stack, &before, after)),
            None => tensors.push(stack),
        }
    }
}

/// Parts before and after an expert's number in Hugging Face's names.
fn names_of(stack: &Tensor, named_experts: bool) -> Option<(String, &'static str)> {
    let named_split = || {
        let (block, matrix) = stack.name.split_once(".mlp.experts.").filter(|_| named_experts)?;
        Some((&stack.name[..block.len() + ".mlp".len()], matrix))
    };
    let (block, matrix) = stack.name.split_once(".switch_mlp.").or_else(named_split)?;
    let [n_experts, _, _] = stack.shape[..] else { return None };
    // Each expert has at least a byte, which bounds their number.
    if n_experts == 0 || stack.n_bytes() < n_experts {
        return None;
    }
    let is_mixtral = block.ends_with("block_sparse_moe");
    let after = match (matrix, is_mixtral) {
        ("gate_proj.weight", true) => "w1.weight",
        ("down_proj.weight", true) => "w2.weight",
        ("up_proj.weight", true) => "w3.weight",
        ("gate_proj.weight", false) => "gate_proj.weight",
        ("down_proj.weight", false) => "down_proj.weight",
        // Experts of Nemotron H have no gate.
        ("up_proj.weight" | "fc1.weight", false) => "up_proj.weight",
        ("fc2.weight", false) => "down_proj.weight",
        _ => return None,
    };
    Some((format!("{block}.experts."), after))
}

/// Experts of a stack; those of codes share a decoder.
fn experts_of(stack: &Tensor, before: &str, after: &str) -> Vec<Tensor> {
    let [n_experts, n_rows, n_columns] = stack.shape[..] else { return Vec::new() };
    let n_bytes = stack.n_bytes() / n_experts.max(1);
    let expert = |index: u64| {
        let stored = stack.stored.clone().map(|whole| -> Arc<dyn Stored> {
            let stored_blocks = whole.stored_blocks().map(|blocks| blocks.matrix(index));
            Arc::new(RowsOf { whole, first_row: index * n_rows, stored_blocks })
        });
        let begin = stack.begin + index * n_bytes;
        Tensor {
            name: format!("{before}{index}.{after}"),
            shape: vec![n_rows, n_columns],
            begin,
            end: begin + n_bytes,
            stored,
            ..stack.clone()
        }
    };
    (0..n_experts).map(expert).collect()
}
