//! Checks of adapter files (LoRA), alone or against the base model.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use gguf_container::{Adapter, Metadata, Model, Value};
use gguf_conversion::{CheckpointInput, Input as _, recipes::Recipe};
use gguf_layout::loader::TensorNames;
use gguf_types::Shape;

use super::report::{Check, Finding};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
    hub::{self, HubOptions},
    input_kind::is_gguf,
};

const ALPHA: &str = "adapter.lora.alpha";
const ARCHITECTURE: &str = "general.architecture";

/// Checks keys and pairs of an adapter file.
pub fn check(model: &Model) -> Check {
    let mut check = Check::new("architecture");
    let metadata = model.metadata();
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    match text("adapter.type") {
        Some("lora") => {}
        Some(kind) => return check.skipped(&format!("no checks for adapters of type `{kind}`")),
        None => check.push(Finding::error("missing_key", "missing metadata key `adapter.type`")),
    }
    if metadata.contains("adapter.alora.invocation_tokens") {
        let message = "activated LoRA: llama.cpp applies it after its invocation tokens only, and `gguf-eval` does not apply it";
        check.push(Finding::note("activated_lora", message));
    }
    check.findings.extend(alpha(metadata));
    let architecture = text(ARCHITECTURE);
    if architecture.is_none() {
        check.push(Finding::error("missing_key", format!("missing metadata key `{ARCHITECTURE}`")));
    }
    let (mut ranks, mut n_pairs, mut norms) = (BTreeSet::new(), 0, Vec::new());
    let mut targets = BTreeSet::new();
    for (_, tensor) in model.tensors() {
        let name = tensor.name.as_str();
        let (target, other) = if let Some(target) = name.strip_suffix(".lora_a") {
            (target, ".lora_b")
        } else if let Some(target) = name.strip_suffix(".lora_b") {
            (target, ".lora_a")
        } else if name.ends_with("_norm.weight") {
            norms.push(name.to_owned());
            continue;
        } else {
            let message = format!("tensor `{name}`: expected a name that ends with `.lora_a` or `.lora_b`");
            check.push(Finding::error("extra_tensor", message));
            continue;
        };
        targets.insert(target);
        let Some((_, half)) = model.tensor(&format!("{target}{other}")) else {
            let message = format!("tensor `{name}` has no partner: missing tensor `{target}{other}`");
            check.push(Finding::error("missing_tensor", message));
            continue;
        };
        if other == ".lora_a" {
            continue;
        }
        let is_embedding = target.ends_with("token_embd.weight");
        let (rank_of_a, rank) = (tensor.shape.dim(usize::from(!is_embedding)), half.shape.dim(0));
        if rank_of_a != rank || rank == 0 {
            let message = format!(
                "`{target}`: the pair has different ranks: A {} has {rank_of_a}, B {} has {rank}",
                tensor.shape, half.shape
            );
            check.push(Finding::error("rank", message));
            continue;
        }
        n_pairs += 1;
        ranks.insert(rank);
    }
    if targets.is_empty() {
        check.push(Finding::error("missing_tensor", "the adapter has no pairs"));
    }
    if !norms.is_empty() {
        let message = format!("norms are ignored, as in llama.cpp: {}", gguf_types::list_names(&norms));
        check.push(Finding::warning("norms", message));
    }
    let name = architecture.unwrap_or_default();
    let known = TensorNames::of(&gguf_models::FAMILIES, name);
    let is_unknown = |target: &&str| known.as_ref().is_some_and(|known| !known.contains(target));
    for target in targets.into_iter().filter(is_unknown) {
        let message = format!("`{target}`: architecture `{name}` has no such tensor in llama.cpp");
        check.push(Finding::error("unknown_tensor", message));
    }
    let ranks: Vec<String> = ranks.iter().map(u64::to_string).collect();
    check.summary = format!("LoRA for {name}, {n_pairs} pairs, rank {}", ranks.join(", "));
    check
}

/// The problem of the key that scales the adapter.
fn alpha(metadata: &Metadata) -> Option<Finding> {
    let unscaled = "so the adapter is applied with scale 1 instead of alpha / rank";
    Some(match metadata.get(ALPHA) {
        None => Finding::warning("alpha", format!("missing metadata key `{ALPHA}`, {unscaled}")),
        Some(Value::F32(alpha)) if *alpha == 0.0 => {
            Finding::warning("alpha", format!("`{ALPHA}` is 0, {unscaled}"))
        }
        Some(Value::F32(alpha)) if alpha.is_finite() => return None,
        Some(Value::F32(alpha)) => Finding::error("alpha", format!("`{ALPHA}` is {alpha}")),
        Some(value) => {
            let found = crate::metadata_json::type_of(value);
            Finding::error("alpha", format!("`{ALPHA}`: expected type f32, found {found}"))
        }
    })
}

/// Compares an adapter file with a base model: a GGUF file, or a checkpoint.
///
/// # Errors
/// A base that cannot be opened.
pub fn against(
    path: &Path,
    base: &Path,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<Check, Error> {
    let check = Check::new("base");
    let Ok(adapter) = Adapter::open(path) else {
        return Ok(check.skipped("the adapter is not valid"));
    };
    if is_gguf(base) {
        let model = Model::open(base).map_err(|error| Error::at(base, error))?;
        let shapes = model.tensors().map(|(_, info)| (info.name.clone(), info.shape)).collect();
        return Ok(compare(check, &adapter, model.metadata(), &shapes));
    }
    let wanted = hub::Wanted { weights: true, keep: false, out: None };
    let found = hub::input(base, wanted, hub_options, events)?;
    let failed = |error| failure(base, error);
    let options = gguf_layout::Options::new(gguf_models::FAMILIES);
    let input = CheckpointInput::open(found.folder.clone(), &options).map_err(failed)?;
    let recipe = Recipe::from_name("f32").map_err(|error| failed(gguf_conversion::Error::Recipe(error)))?;
    let tensors = input.tensors(recipe);
    let shapes = tensors.iter().map(|tensor| (tensor.name.to_owned(), tensor.shape)).collect();
    let check = compare(check, &adapter, &input.layout().metadata, &shapes);
    found.finish(events)?;
    Ok(check)
}

fn compare(mut check: Check, adapter: &Adapter, base: &Metadata, shapes: &HashMap<String, Shape>) -> Check {
    let [expected, found] = [base, adapter.model().metadata()]
        .map(|metadata| metadata.get(ARCHITECTURE).and_then(Value::as_str).unwrap_or_default());
    if expected != found {
        let message =
            format!("`{ARCHITECTURE}` is `{found}`, expected `{expected}`, the architecture of the base");
        check.push(Finding::error("key", message));
        return check;
    }
    let mut n_fit = 0;
    for target in adapter.targets() {
        let Some(shape) = shapes.get(target) else {
            check.push(Finding::error("missing_tensor", format!("`{target}`: the base has no such tensor")));
            continue;
        };
        match adapter.pair(target, *shape) {
            Ok(_) => n_fit += 1,
            Err(error) => check.push(Finding::error("tensor_shape", error)),
        }
    }
    check.summary = format!("{n_fit} pairs fit");
    check
}
