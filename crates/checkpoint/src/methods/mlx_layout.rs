//! Converts floats saved by mlx-lm back to the layout of Hugging Face's checkpoints.
//!
//! mlx-lm changes weights when it loads a model (`sanitize` in `models/*.py`) and saves the changed weights:
//!
//! ```text
//! stacks of experts         switch_mlp.gate_proj.weight (E, out, in)    split again, see `experts`
//! kernels of convolutions   conv1d.weight (C, K, 1)                     (C, 1, K) in Hugging Face's form: the same bytes
//! norms of Qwen 3 Next and  w + 1, with the kernels above               w
//! Qwen 3.5
//! ```
//!
//! Other families have matrices that are split, joined, transposed or multiplied. Callers list them ([`FamilyForm`]),
//! and they are refused.
//!
//! Source: mlx-lm 0.32.2.

use std::{ops::Range, sync::Arc};

use serde_json::Value as Json;

use super::{
    experts::{have_biases, split_experts},
    gate_up::join_gate_and_up,
    quantized::Decoded,
};
use crate::{Error, FamilyForm, MlxChange, Part, ReadError, Region, Span, Stored, Tensor, read_columns};

/// Changes of any family that are not undone.
const CHANGED: &[MlxChange] = &[
    MlxChange { part: Some(".embed_q."), difference: "its latent attention is split and transposed" },
    MlxChange { part: Some(".unembed_out."), difference: "its latent attention is split and transposed" },
];

/// Converts tensors to Hugging Face's form, if MLX wrote them.
///
/// # Errors
/// [`Error::MlxLayout`] for families whose weights MLX changes in another way.
pub(super) fn undo(
    config: &Json,
    parts: &[Part],
    forms: &'static [FamilyForm],
    decoded: &mut Decoded,
) -> Result<(), Error> {
    let tensors = &mut decoded.tensors;
    let is_mlx = parts.iter().any(|part| part.metadata.get("format").is_some_and(|format| format == "mlx"));
    let is_turned = tensors.iter().any(is_turned_kernel);
    let configs = [Some(config), config.get("text_config")].into_iter().flatten();
    let names: Vec<&str> = configs.filter_map(|config| config.get("model_type")?.as_str()).collect();
    let is_own = |form: &&FamilyForm| form.model_types.iter().any(|name| names.contains(name));
    let own: Vec<&FamilyForm> = forms.iter().filter(is_own).collect();
    if is_mlx || is_turned {
        if forms.is_empty() {
            decoded.notes.push("weights written by MLX are read as they are stored".to_owned());
            return Ok(());
        }
        let is_there = |part: &str| tensors.iter().any(|tensor| tensor.name.contains(part));
        let mut changes = own.iter().filter_map(|form| form.mlx_change.as_ref()).chain(CHANGED);
        let change = changes.find(|change| change.part.is_none_or(is_there));
        if let Some(MlxChange { difference, .. }) = change {
            let family = names.first().copied().unwrap_or_default().to_owned();
            return Err(Error::MlxLayout { family, difference });
        }
    }
    let have_biases = have_biases(tensors);
    split_experts(tensors, is_mlx && !have_biases);
    if is_mlx {
        if have_biases {
            join_gate_and_up(tensors)?;
        }
        for (mlx, usual) in own.iter().flat_map(|form| form.mlx_names) {
            for tensor in tensors.iter_mut() {
                if mlx.starts_with('.') || tensor.name.starts_with(mlx) {
                    tensor.name = tensor.name.replacen(mlx, usual, 1);
                }
            }
        }
    }
    let norms = || own.iter().flat_map(|form| form.mlx_norms);
    for tensor in tensors.iter_mut().filter(|_| is_turned) {
        if is_turned_kernel(tensor) {
            tensor.shape.swap(1, 2);
        }
        if tensor.shape.len() == 1 && norms().any(|end| tensor.name.ends_with(end)) {
            tensor.stored = Some(Arc::new(LessOne(tensor.clone())));
        }
    }
    Ok(())
}

/// True for kernels of depthwise convolutions in MLX's layout. A kernel of one step over all channels, (out,
/// in, 1), has such a shape too; in audio models it has other names.
fn is_turned_kernel(tensor: &Tensor) -> bool {
    let is_kernel = ["conv1d.weight", ".conv.conv.weight"].iter().any(|end| tensor.name.ends_with(end));
    is_kernel && matches!(tensor.shape[..], [_, length, 1] if length > 1)
}

/// A tensor with 1 subtracted from its values.
#[derive(Debug)]
struct LessOne(Tensor);

impl Stored for LessOne {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        read_columns(parts, &self.0, rows, columns, out)?;
        out.iter_mut().for_each(|value| *value -= 1.0);
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        self.0.spans(rows)
    }

    fn after_parts(&self, n: usize) -> Option<Arc<dyn Stored>> {
        Some(Arc::new(LessOne(self.0.clone().after_parts(n))))
    }
}
