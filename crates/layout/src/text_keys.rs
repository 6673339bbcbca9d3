//! The hyperparameter keys that text models share.

use gguf_container::{Array, Value};
use serde_json::Value as Json;

use crate::ArchError;
use crate::config::{Hparams, N_LAYERS, Rope};
use crate::error::{bad, missing};
use crate::keys::{Keys, to_f32, to_i32, to_u32};

/// Writes the keys that the reference writes for every text model, in its order, and marks the place of
/// `general.file_type` at the end. The sliding window is not among these keys: each architecture that uses it
/// writes it.
///
/// Source: `TextModel.set_gguf_parameters` in `conversion/base.py`.
///
/// # Errors
///
/// [`ArchError::MissingKey`] for the number of layers, [`ArchError::BadKey`].
pub fn text_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Without a number of layers, further checks are impossible.
    hparams.n_layers()?;
    // The spellings are those of `find_hparam` in the reference, in its order: the first that is
    // present wins.
    keys.count("block_count", hparams, N_LAYERS)?;
    keys.count(
        "context_length",
        hparams,
        &[
            "max_position_embeddings",
            "n_ctx",
            "n_positions",
            "max_length",
            "max_sequence_length",
            "model_max_length",
        ],
    )?;
    keys.count("embedding_length", hparams, &["hidden_size", "n_embd", "dim"])?;
    keys.counts(
        "feed_forward_length",
        hparams,
        &[
            "prefix_dense_intermediate_size",
            "dense_intermediate_size",
            "intermediate_size",
            "n_inner",
            "hidden_dim",
        ],
    )?;
    keys.counts("attention.head_count", hparams, &["num_attention_heads", "n_head", "n_heads"])?;
    keys.counts("attention.head_count_kv", hparams, &["num_key_value_heads", "n_kv_heads"])?;
    // Written for models that look both ways only; readers take a missing key for true.
    if hparams.get("is_causal") == Some(&Json::Bool(false)) {
        keys.set_prefixed("attention.causal", Value::Bool(false));
    }
    rope_keys(hparams, keys)?;
    keys.number("attention.layer_norm_rms_epsilon", hparams, &["rms_norm_eps", "norm_eps"])?;
    keys.number(
        "attention.layer_norm_epsilon",
        hparams,
        &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"],
    )?;
    expert_keys(hparams, keys)?;
    // Only if the config has the key: llama.cpp computes width / heads otherwise. That differs
    // between a file with defaults filled in and one as it stands.
    if let Some(head_dim) = hparams.get("head_dim") {
        let head_dim = to_u32("head_dim", head_dim)?;
        keys.set_prefixed("attention.key_length", Value::U32(head_dim));
        keys.set_prefixed("attention.value_length", Value::U32(head_dim));
    }
    keys.file_type_here();
    Ok(())
}

/// Kinds of rotary scaling that files have no keys for, or none without a factor.
const WITHOUT_KEYS: &[&str] = &["dynamic", "linear", "mrope", "xdrope", "yarn"];

/// Keys of rotary scaling. `dynamic` gives none, and `llama3` becomes the tensor `rope_freqs`.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn scaling_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let rope = hparams.rope();
    match (rope.kind(), rope.get("factor")) {
        // Positions are divided by the factor.
        (Some("linear"), Some(factor)) => {
            keys.set_prefixed("rope.scaling.type", "linear".into());
            keys.set_prefixed("rope.scaling.factor", Value::F32(to_f32("rope_parameters.factor", factor)?));
        }
        // YaRN. With d dimensions, base b and original length L, dimension i is at
        //   r(i) = L / (2 pi b^(2i/d))   turns over that length.
        // Above beta_fast turns it stays, below beta_slow turns it is slowed down by the factor, between it is blended.
        // llama.cpp computes the blend; the file states the numbers.
        (Some("yarn"), Some(factor)) => {
            keys.set_prefixed("rope.scaling.type", "yarn".into());
            keys.set_prefixed("rope.scaling.factor", Value::F32(to_f32("rope_parameters.factor", factor)?));
            let key = "rope_parameters.original_max_position_embeddings";
            let length = rope.get("original_max_position_embeddings").ok_or_else(|| missing(key))?;
            keys.set_prefixed("rope.scaling.original_context_length", Value::U32(to_u32(key, length)?));
            keys.rope_number("rope.scaling.yarn_ext_factor", rope, &["extrapolation_factor"])?;
            keys.rope_number("rope.scaling.yarn_attn_factor", rope, &["attention_factor", "attn_factor"])?;
            keys.rope_number("rope.scaling.yarn_beta_fast", rope, &["beta_fast"])?;
            keys.rope_number("rope.scaling.yarn_beta_slow", rope, &["beta_slow"])?;
        }
        // The factors themselves are tensors (`rope_factors_long`, `rope_factors_short`).
        (Some("su" | "longrope"), _) => keys.set_prefixed("rope.scaling.type", "longrope".into()),
        (Some(kind), _) if ["default", "llama3", "proportional"].contains(&kind.to_lowercase().as_str()) => {}
        (Some(kind), _) if WITHOUT_KEYS.contains(&kind) => {}
        (Some(kind), _) => {
            let expected = "a known type of rotary scaling, for example linear, yarn or llama3";
            return Err(bad("rope_parameters.rope_type", &kind.into(), expected));
        }
        (None, _) => {}
    }
    Ok(())
}

/// Notes rotary scaling that the keys of the file do not express.
pub fn note_unstored_scaling(hparams: &Hparams, keys: &mut Keys) {
    let kind = hparams.rope().kind().filter(|kind| WITHOUT_KEYS.contains(kind));
    let is_stored = keys.prefixed("rope.scaling.type").is_some();
    if let Some(kind) = kind.filter(|_| !is_stored) {
        keys.notes.push(format!(
            "rotary scaling of type `{kind}` is not stored, because no metadata keys \
                exist for it"
        ));
    }
}

/// Rotary keys.
fn rope_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    scaling_keys(hparams, keys)?;
    let rope = hparams.rope();
    if let Some(Json::Array(sections)) = rope.get("mrope_section") {
        let mut sections = sections
            .iter()
            .map(|item| to_i32("rope_parameters.mrope_section", item))
            .collect::<Result<Vec<_>, _>>()?;
        // llama.cpp reads four numbers: time, height, width and one that no model has yet.
        sections.resize(4, 0);
        keys.set_prefixed("rope.dimension_sections", Value::Array(Array::I32(sections)));
    }
    keys.rope_number("rope.freq_base", rope, &["rope_theta"])?;
    if let Some(sliding) = hparams.rope_sliding() {
        keys.rope_number("rope.freq_base_swa", sliding, &["rope_theta"])?;
        note_sliding_scaling(rope, sliding, keys);
    }
    Ok(())
}

/// Notes rotary scaling of layers with a sliding window that differs from that of the others.
fn note_sliding_scaling(full: Rope<'_>, sliding: Rope<'_>, keys: &mut Keys) {
    let kind = sliding.kind().unwrap_or("default");
    let is_same = full.kind() == Some(kind) && full.get("factor") == sliding.get("factor");
    if kind != "default" && !is_same {
        keys.notes.push(format!(
            "rotary scaling of type `{kind}` in layers with a sliding window \
                (`rope_parameters.sliding_attention`) is not stored, because no metadata keys exist for it"
        ));
    }
}

fn expert_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.count("expert_count", hparams, &["num_local_experts", "num_experts", "n_routed_experts"])?;
    keys.counts(
        "expert_used_count",
        hparams,
        &["num_experts_per_tok", "num_experts_per_token", "top_k_experts"],
    )?;
    keys.count("expert_group_count", hparams, &["n_group"])?;
    keys.count("expert_group_used_count", hparams, &["topk_group"])?;
    let names = [
        "score_function",
        "scoring_func",
        "score_func",
        "moe_router_activation",
        "moe_router_activation_func",
        "expert_selection_fn",
        "router_score_func",
    ];
    keys.derived_from("expert_gating_func", &names);
    if let Some((name, value)) = hparams.find(&names) {
        // `ExpertGatingFuncType` in `gguf-py/gguf/constants.py`; 3 is softmax over the chosen experts
        // alone, which no config names.
        let id = match value.as_str() {
            Some("softmax") => 1,
            Some("sigmoid") => 2,
            Some("sqrtsoftplus") => 4,
            _ => return Err(bad(name, value, "softmax, sigmoid or sqrtsoftplus")),
        };
        keys.set_prefixed("expert_gating_func", Value::U32(id));
    }
    Ok(())
}
