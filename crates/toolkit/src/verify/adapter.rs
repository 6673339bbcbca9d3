//! Checks of adapter files (LoRA), alone or against the base model or the adapter folder.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use gguf_checkpoint::Folder;
use gguf_container::{Adapter, Metadata, Model, Value};
use gguf_conversion::{AdapterInput, CheckpointInput, Input as _, RunOptions, recipes::Recipe};
use gguf_layout::loader::TensorNames;
use gguf_types::{Shape, words};

use super::{
    VerifyOptions, against,
    report::{Check, Finding},
};
use crate::{
    adapter::{Adapter as Lora, local_base, open_base},
    error::Error,
    events::Events,
    failure::{failure, source_failure},
    hub::{self, HubOptions},
    input_kind::{Wanted, base_of_adapter, is_gguf},
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

/// Compares an adapter file with a base model (a GGUF file or a checkpoint), or with the adapter folder that it was made from.
///
/// # Errors
/// A base or an adapter folder that cannot be opened.
pub fn against(
    model: &Model,
    source: &Path,
    options: &VerifyOptions,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<Vec<Check>, Error> {
    let check = Check::new("base");
    let Ok(adapter) = Adapter::open(&options.file) else {
        return Ok(vec![check.skipped("the adapter is not valid")]);
    };
    if is_gguf(source) {
        check_alone(options)?;
        let base = Model::open(source).map_err(|error| Error::at(source, error))?;
        let shapes = base.tensors().map(|(_, info)| (info.name.clone(), info.shape)).collect();
        return Ok(vec![compare(check, &adapter, base.metadata(), &shapes)]);
    }
    let wanted = hub::Wanted { weights: true, keep: false, out: None };
    let found = hub::input(source, wanted, hub_options, events)?;
    if gguf_checkpoint::is_adapter(&found.folder) {
        check_alone(options)?;
        let checks = with_folder(model, source, &found.folder, None, options, events)?;
        found.finish(events)?;
        return Ok(checks);
    }
    if let [Lora { path, scale: 1.0 }] = &options.adapters[..]
        && !options.lora_tokenizer
    {
        let folder = hub::input(path, wanted, hub_options, events)?;
        let checks = with_folder(model, path, &folder.folder, Some(&found.folder), options, events)?;
        [folder, found].into_iter().try_for_each(|input| input.finish(events))?;
        return Ok(checks);
    }
    check_alone(options)?;
    let failed = |error| failure(source, error);
    let layout = gguf_layout::Options::new(gguf_models::FAMILIES);
    let input = CheckpointInput::open(found.folder.clone(), &layout).map_err(failed)?;
    let recipe = Recipe::from_name("f32").map_err(|error| failed(gguf_conversion::Error::Recipe(error)))?;
    let tensors = input.tensors(recipe);
    let shapes = tensors.iter().map(|tensor| (tensor.name.to_owned(), tensor.shape)).collect();
    let check = compare(check, &adapter, &input.layout().metadata, &shapes);
    found.finish(events)?;
    Ok(vec![check])
}

/// Refuses adapters that the comparison would not use.
fn check_alone(options: &VerifyOptions) -> Result<(), Error> {
    if options.adapters.is_empty() {
        return Ok(());
    }
    Err(Error::usage(words!(
        "an adapter file needs the base's folder as [-against] and one adapter folder as [-lora]"
    )))
}

/// Compares an adapter file with the folder that it was made from. The base is needed for its config.
fn with_folder(
    model: &Model,
    path: &Path,
    folder: &Folder,
    base: Option<&Folder>,
    options: &VerifyOptions,
    events: &dyn Events,
) -> Result<Vec<Check>, Error> {
    let adapter = gguf_checkpoint::open_adapter(folder.clone())
        .map_err(|error| source_failure(path, error.into(), Wanted::AdapterFolder))?;
    let Some(base) = base.cloned().or_else(|| local_base(&adapter.config)) else {
        let (file, shown) = (options.file.display(), path.display());
        let advice = words!(
            "run `[gguf-inspect verify {} -against {} -lora {}]`",
            file,
            base_of_adapter(folder.path()),
            shown
        );
        return Err(Error::at(path, "missing config of the base model of the adapter").hint([advice]));
    };
    let layout = gguf_layout::Options::new(gguf_models::FAMILIES);
    let base = open_base(&base, &layout)?;
    let input =
        AdapterInput::new(folder.path(), adapter, &base, &layout).map_err(|error| failure(path, error))?;
    let run = RunOptions::default().threads(options.threads).level(options.level);
    against::with(model, &input, path, &input.layout().metadata, &run, events)
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
