//! Errors for checkpoints whose class is unknown or missing.

use serde_json::Value as Json;

use crate::leftovers;
use crate::nearest::nearest_tables;
use crate::registry::Families;
use crate::text_part::{first_class, text_config};
use crate::{ArchError, Input};

/// A class that no architecture has: a classifier, or one with the names and the tables that are nearest.
pub fn unknown_class(families: &Families, class: &str, input: &Input<'_>) -> ArchError {
    let names = || input.tensors.iter().map(|tensor| tensor.name.as_str());
    let heads: Vec<String> =
        names().filter(|name| leftovers::is_score_head(name)).map(str::to_owned).collect();
    let has_output = names().any(|name| name.ends_with("lm_head.weight"));
    if leftovers::is_classifier_class(class) || !heads.is_empty() && !has_output {
        return ArchError::Classifier { class: Some(class.into()), heads };
    }
    if first_class(&input.config) == Some(class) && families.projector(&input.config).is_ok() {
        // `text_model_id` of Ultravox names the checkpoint of the text model.
        let text_model = input.config.get("text_model_id").and_then(Json::as_str).map(str::to_owned);
        return ArchError::OnlyProjector { class: class.into(), text_model };
    }
    let part = text_config(&input.config).unwrap_or(&input.config);
    let model_type = part.get("model_type").or_else(|| input.config.get("model_type")).and_then(Json::as_str);
    ArchError::UnknownClass {
        class: class.into(),
        nearest: families.nearest_classes(class),
        by_tensors: nearest_tables(families, class, model_type, &input.tensors),
        n_tensors: input.tensors.len(),
    }
}

/// A config without a class whose `model_type` is unknown.
pub fn no_class(families: &Families, input: &Input<'_>) -> ArchError {
    let by_tensors = nearest_tables(families, "", None, &input.tensors);
    ArchError::NoClass { by_tensors, n_tensors: input.tensors.len() }
}
