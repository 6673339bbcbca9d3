//! The files that a checkpoint would become, by type.

use std::path::Path;

use gguf_container::Plan;
use gguf_conversion::{CheckpointInput, Conversion, Error as EngineError, OutputRequest};
use gguf_layout::ArchError;
use gguf_runtime::memory::Demand;

use super::candidate::{Candidate, Found, Stored, bytes_per_token, demand, is_scaled};
use crate::{
    container_file::open_model,
    error::Error,
    events::Events,
    failure::failure,
    file_type::FileType,
    hub::{self, HubOptions},
    memory::{self, TypeSize},
    remote_headers::HollowFiles,
};

/// Plans a file of each type. Weights are not read.
///
/// # Errors
/// A checkpoint that cannot be read or converted.
pub fn found(source: &Path, hub: &HubOptions, events: &dyn Events) -> Result<Found, Error> {
    let wanted = hub::Wanted { weights: true, keep: false, out: None };
    let input = hub::input(source, wanted, hub, events)?;
    let options = gguf_layout::Options::new(gguf_models::FAMILIES);
    let found = match CheckpointInput::open(input.folder.clone(), &options) {
        Ok(checkpoint) => by_type(source, &checkpoint, hub, events)?,
        Err(EngineError::Arch(error @ (ArchError::UnknownClass { .. } | ArchError::NoClass { .. }))) => {
            events
                .warning(format!("{}: {error}; only the bytes of the weights are counted", source.display()));
            let checkpoint = gguf_checkpoint::open_text(input.folder.clone())
                .map_err(|error| failure(source, EngineError::Source(error)))?;
            let weights = checkpoint.parts.iter().map(|part| part.n_bytes()).fold(0, u64::saturating_add);
            let candidate = Candidate { is_checkpoint: true, ..Candidate::of_weights(source, weights) };
            Found { candidates: vec![candidate], ..Found::default() }
        }
        Err(error) => {
            let advice = "to estimate a GGUF file of the Hub, pass its address: hf://OWNER/MODEL/FILE.gguf";
            return Err(failure(source, error).hint(input.commit.is_some().then_some(advice)));
        }
    };
    input.finish(events)?;
    Ok(found)
}

/// A file that the checkpoint would become.
struct PlannedType {
    file_type: FileType,
    plan: Plan,
}

fn by_type(
    source: &Path,
    checkpoint: &CheckpointInput,
    hub: &HubOptions,
    events: &dyn Events,
) -> Result<Found, Error> {
    let mut planned_types = Vec::new();
    for (file_type, recipe) in memory::types() {
        let conversion = Conversion::new(checkpoint).outputs([OutputRequest::by_rules(recipe)]);
        let planned = conversion.plan().map_err(|error| failure(source, error))?;
        let plan = planned.files().first().map(|file| file.plan.clone());
        planned_types.extend(plan.map(|plan| PlannedType { file_type, plan }));
    }
    // The types of weights change no other memory.
    let Some(smallest) = planned_types.iter().min_by_key(|planned| planned.plan.file_len()) else {
        return Ok(Found::default());
    };
    let files = HollowFiles::of_plan(&smallest.plan, hub)?;
    let model = open_model(&files.path())?;
    let shared = demand(source, &model, events)?;
    let candidate = |planned: &PlannedType| {
        let tensors = planned.plan.tensors().iter();
        let stored = tensors.map(|tensor| Stored::new(&tensor.name, tensor.shape, tensor.n_bytes));
        let weights = planned.plan.tensor_bytes();
        Candidate {
            file_type: Some(planned.file_type),
            is_checkpoint: true,
            demand: Demand { weights, ..shared.clone() },
            bytes_per_token: bytes_per_token(&shared, &model, stored),
            weights_only: false,
            is_scaled: is_scaled(&model),
            ..Candidate::of_weights(source, weights)
        }
    };
    let size =
        |planned: &PlannedType| TypeSize { file_type: planned.file_type, n_bytes: planned.plan.file_len() };
    Ok(Found {
        candidates: planned_types.iter().map(candidate).collect(),
        sizes: planned_types.iter().map(size).collect(),
    })
}
