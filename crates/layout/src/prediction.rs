//! Predictions with incomplete layers: the errors of a checkpoint that lacks parts of its MTP layers.

use crate::{
    ArchError,
    arch::{Arch, Class},
    config::Hparams,
    layout::OutTensor,
};

/// The number of a layer in a tensor's name.
fn layer_of(name: &str) -> Option<u64> {
    let (_, rest) = name.split_once("layers.").or_else(|| name.split_once("blk."))?;
    rest.split_once('.')?.0.parse().ok()
}

/// The error for missing tensors that all belong to layers of a prediction.
pub(crate) fn prediction_row(
    error: ArchError,
    arch: &Arch,
    class: Class,
    hparams: &Hparams,
    trunk: Option<u64>,
) -> ArchError {
    let ArchError::MissingTensors { names } = error else { return error };
    // The names of the table count on from the last layer; those of the checkpoint may not.
    let is_part = |name: &String| {
        name.starts_with("mtp.") || layer_of(name).zip(trunk).is_some_and(|(layer, trunk)| layer >= trunk)
    };
    let n_layers = hparams.n_layers().ok();
    if n_layers <= trunk || !names.iter().all(is_part) {
        return ArchError::MissingTensors { names };
    }
    let spelled = |name: String| (arch.export_name)(hparams, class, &name).unwrap_or(name);
    ArchError::IncompletePrediction { names: names.into_iter().map(spelled).collect() }
}

/// Refuses a layer of a prediction without the tensors that join it to the layers before: llama.cpp would not load it.
pub(crate) fn check_prediction(
    tensors: &[OutTensor],
    hparams: &Hparams,
    trunk: Option<u64>,
) -> Result<(), ArchError> {
    let Some(trunk) = trunk.filter(|trunk| hparams.n_layers().is_ok_and(|n_layers| n_layers > *trunk)) else {
        return Ok(());
    };
    let has = |name: &str| tensors.iter().any(|tensor| tensor.name == name);
    if !tensors.iter().any(|tensor| layer_of(&tensor.name) == Some(trunk)) {
        return Ok(());
    }
    let parts = ["eh_proj", "enorm", "hnorm"].map(|part| format!("blk.{trunk}.nextn.{part}.weight"));
    let names: Vec<String> = parts.into_iter().filter(|name| !has(name)).collect();
    if names.is_empty() { Ok(()) } else { Err(ArchError::IncompletePrediction { names }) }
}
