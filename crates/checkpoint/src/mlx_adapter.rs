//! LoRA adapters of mlx-lm, converted to PEFT's form.
//!
//! ```text
//! mlx-lm: y = W x + scale * lora_b^T lora_a^T x    lora_a (in, r), lora_b (r, out)
//! PEFT:   y = W x + alpha / r * B A x              A (r, in), B (out, r)
//! ```
//!
//! Source: `LoRALinear`, `LoRAEmbedding` in `mlx_lm/tuner/lora.py` and `load_adapters` in
//! `mlx_lm/tuner/utils.py`.

use serde_json::{Value as Json, json};

use crate::{Dtype, Error, Tensor, torch::transposed};

pub(crate) const WEIGHTS: &str = "adapters.safetensors";

/// Equivalent PEFT config. `tensors` are those of the file.
///
/// # Errors
/// [`Error::MlxAdapter`] for kinds other than LoRA and for a missing scale.
pub(crate) fn config(config: &Json, tensors: &[Tensor], notes: &mut Vec<String>) -> Result<Json, Error> {
    let refuse = |problem: String| Err(Error::MlxAdapter { problem });
    match config.get("fine_tune_type").and_then(Json::as_str) {
        None | Some("lora") => {}
        Some(kind) => return refuse(format!("`fine_tune_type` is {kind}, expected lora")),
    }
    if config.get("use_dora").and_then(Json::as_bool) == Some(true) {
        return refuse("`use_dora` is true".to_owned());
    }
    let number = |key: &str| config.pointer(&format!("/lora_parameters/{key}")).and_then(Json::as_f64);
    let Some(scale) = number("scale").filter(|scale| scale.is_finite()) else {
        return refuse("missing `lora_parameters.scale` in adapter_config.json".to_owned());
    };
    let rank = tensors
        .iter()
        .find(|tensor| tensor.name.ends_with(".lora_a") && tensor.shape.len() == 2)
        .map(Tensor::row_elems);
    let Some(rank) = rank.filter(|rank| *rank > 0) else {
        return refuse(format!("missing pairs of `lora_a` and `lora_b` in `{WEIGHTS}`"));
    };
    let mut alpha = scale * rank as f64;
    if let Some(old) = number("alpha") {
        // Releases of early 2024 multiplied both.
        alpha = scale * old;
        notes.push(format!(
            "`lora_parameters` has a scale and an alpha: the scale is {scale} x {old} / {rank}"
        ));
    }
    let base = config.get("model").cloned().unwrap_or_default();
    Ok(json!({"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "base_model_name_or_path": base}))
}

/// Tensors in PEFT's names and layout.
///
/// # Errors
/// [`Error::MlxAdapter`] with the first tensor that is not half of a pair of matrices.
pub(crate) fn tensors(tensors: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
    tensors.into_iter().map(peft_tensor).collect()
}

fn peft_tensor(tensor: Tensor) -> Result<Tensor, Error> {
    let half = [(".lora_a", "A"), (".lora_b", "B")];
    let half = half.iter().find_map(|(end, half)| Some((tensor.name.strip_suffix(end)?, *half)));
    let (Some((module, half)), [_, _]) = (half, &tensor.shape[..]) else {
        let problem =
            format!("tensor `{}` of shape {:?} is not half of a pair of matrices", tensor.name, tensor.shape);
        return Err(Error::MlxAdapter { problem });
    };
    // Both libraries look up rows of an embedding's first matrix, which PEFT transposes like all others.
    let is_embedding = ["embed_tokens", "wte"].iter().any(|end| module.ends_with(end));
    let name = if is_embedding {
        format!("base_model.model.{module}.lora_embedding_{half}")
    } else {
        format!("base_model.model.{module}.lora_{half}.weight")
    };
    // Values keep their float type, like plain tensors.
    let is_float = matches!(tensor.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
    let dtype = if is_float { Dtype::F32 } else { tensor.dtype };
    Ok(Tensor { name, dtype, ..transposed(tensor) })
}
