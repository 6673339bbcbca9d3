//! Floats as mlx-lm saves them, brought back to the layout of Hugging Face's checkpoints.
//!
//! mlx-lm changes weights when it loads a model (`sanitize` in `models/*.py`) and saves what it has changed:
//!
//! ```text
//! stacks of experts         switch_mlp.gate_proj.weight (E, out, in)    split again, see `experts`
//! kernels of convolutions   conv1d.weight (C, K, 1)                     (C, 1, K) in Hugging Face's form: the same bytes
//! norms of Qwen 3 Next and  w + 1, with the kernels above               w
//! Qwen 3.5
//! ```
//!
//! Other families have matrices that are split, joined, transposed or multiplied. These are refused by name.
//!
//! Source: mlx-lm 0.32.2.

use std::{ops::Range, sync::Arc};

use serde_json::Value as Json;

use super::{
    experts::{have_biases, split_experts},
    gate_up::join_gate_and_up,
};
use crate::{Error, Part, ReadError, Region, Span, Stored, Tensor, read_columns};

/// Families whose weights mlx-lm changes in a way that is not undone here, with the change. A family without `part` is
/// refused if the metadata names MLX as the writer.
const CHANGED: &[Changed] = &[
    Changed::family(&["falcon_h1"], "the multipliers of the config are in its weights"),
    Changed::family(&["gpt2"], "its matrices are transposed"),
    Changed::family(&["baichuan_m1"], "its output is normalized"),
    Changed::family(&["rwkv7"], "its vectors have a different shape"),
    Changed::family(&["recurrent_gemma"], "its layout is that of MLX"),
    Changed::family(&["kimi_k3", "kimi_linear"], "its projections are joined and transposed"),
    Changed::family(&["olmo_hybrid", "muse_spark", "minimax_m3_vl"], "its projections are joined"),
    Changed::with(
        &["llama4", "llama4_text", "qwen3_vl_moe"],
        ".gate_proj.",
        "its experts are split and transposed",
    ),
    Changed::with(&["hunyuan"], ".q_proj.", "its projections are split"),
    Changed::with(&["dbrx"], ".ffn.", "its experts are split"),
    Changed::with(&["granitemoe", "granitemoehybrid"], "gate_proj.", "its gate and up are split"),
    Changed::with(&["step3p5"], ".switch_mlp.", "its norms are stored as w + 1"),
    Changed::with(&["gemma4", "gemma4_text"], ".switch_glu.", "its gate and up are split"),
    Changed::with(&[], ".embed_q.", "its latent attention is split and transposed"),
    Changed::with(&[], ".unembed_out.", "its latent attention is split and transposed"),
];

/// A change that is not undone.
struct Changed {
    /// Values of `model_type`; none for all.
    families: &'static [&'static str],
    /// A part of the names of tensors that are changed, if not all files of MLX are.
    part: Option<&'static str>,
    difference: &'static str,
}

impl Changed {
    const fn family(families: &'static [&'static str], difference: &'static str) -> Changed {
        Changed { families, part: None, difference }
    }

    const fn with(
        families: &'static [&'static str],
        part: &'static str,
        difference: &'static str,
    ) -> Changed {
        Changed { families, part: Some(part), difference }
    }
}

/// Parts of names that mlx-lm changes, with those of Hugging Face's form, by family. All of a family are applied in their order.
const RENAMED: &[(&[&str], &str, &str)] = &[
    (&["bailing_moe", "bailing_moe_v2", "bailing_moe_linear"], ".mlp.gate.gate_proj.", ".mlp.gate."),
    (&["gptj"], "model.", "transformer."),
    (&["gpt_neox"], "model.h.", "gpt_neox.layers."),
    (&["gpt_neox"], "model.embed_out.", "embed_out."),
    (&["gpt_neox"], "model.", "gpt_neox."),
    (&["laguna"], ".mlp.gate.proj.", ".mlp.gate."),
    (&["laguna"], ".mlp.gate.e_score_correction_bias", ".mlp.experts.e_score_correction_bias"),
    (&["lfm2_moe"], ".gate_proj.weight", ".w1.weight"),
    (&["lfm2_moe"], ".down_proj.weight", ".w2.weight"),
    (&["lfm2_moe"], ".up_proj.weight", ".w3.weight"),
];

/// Families whose norms mlx-lm stores as `w + 1`, and the ends of their names.
const SHIFTED: (&[&str], &[&str]) = (
    &["qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"],
    &[
        ".input_layernorm.weight",
        ".post_attention_layernorm.weight",
        "model.norm.weight",
        ".q_norm.weight",
        ".k_norm.weight",
    ],
);

/// Brings tensors back to the layout of Hugging Face's form, if MLX wrote them.
///
/// # Errors
/// [`Error::MlxLayout`] for families whose weights MLX changes in another way.
pub(super) fn undo(config: &Json, parts: &[Part], tensors: &mut Vec<Tensor>) -> Result<(), Error> {
    let kind = |config: &Json| config.get("model_type").and_then(Json::as_str).unwrap_or_default().to_owned();
    let kinds = [kind(config), config.get("text_config").map(kind).unwrap_or_default()];
    let matches = |families: &[&str]| families.iter().any(|family| kinds.iter().any(|kind| kind == family));
    let is_mlx = parts.iter().any(|part| part.metadata.get("format").is_some_and(|format| format == "mlx"));
    let is_turned = tensors.iter().any(is_turned_kernel);
    if is_mlx || is_turned {
        let has = |part: &str| tensors.iter().any(|tensor| tensor.name.contains(part));
        let changed = CHANGED.iter().find(|changed| {
            (changed.families.is_empty() || matches(changed.families)) && changed.part.is_none_or(has)
        });
        if let Some(Changed { difference, .. }) = changed {
            let family = kinds.into_iter().find(|kind| !kind.is_empty()).unwrap_or_default();
            return Err(Error::MlxLayout { family, difference });
        }
    }
    let have_biases = have_biases(tensors);
    split_experts(tensors, is_mlx && !have_biases);
    if is_mlx {
        if have_biases {
            join_gate_and_up(tensors)?;
        }
        for (_, mlx, peft) in RENAMED.iter().filter(|(families, ..)| matches(families)) {
            for tensor in tensors.iter_mut() {
                // Without a dot in front it is the beginning of a name.
                if mlx.starts_with('.') || tensor.name.starts_with(mlx) {
                    tensor.name = tensor.name.replacen(mlx, peft, 1);
                }
            }
        }
    }
    let (families, norms) = SHIFTED;
    for tensor in tensors.iter_mut().filter(|_| is_turned) {
        if is_turned_kernel(tensor) {
            tensor.shape.swap(1, 2);
        }
        let is_norm = tensor.shape.len() == 1 && norms.iter().any(|end| tensor.name.ends_with(end));
        if is_norm && matches(families) {
            tensor.stored = Some(Arc::new(LessOne(tensor.clone())));
        }
    }
    Ok(())
}

/// True for kernels of convolutions by channel in the layout of MLX.
fn is_turned_kernel(tensor: &Tensor) -> bool {
    let is_kernel = ["conv1d.weight", "conv.weight"].iter().any(|end| tensor.name.ends_with(end));
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
