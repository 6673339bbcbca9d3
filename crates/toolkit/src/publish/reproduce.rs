//! The command of the card that makes all files from scratch, which the calls that made them need not be.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_conversion::recipes::Recipe;
use gguf_types::words;

use super::{
    ladder::{Entry, size_argument},
    names::TEMPLATE,
    options::{CHUNKS, CONTEXT, PublishOptions, SPLIT_MAX_SIZE},
    results::ModelFacts,
};

/// Commands that reproduce a publication.
pub struct Commands {
    /// The call that makes the files, an argument each.
    pub command: Vec<String>,
    /// A call that removes the type that the first one has to name; empty if types are published.
    pub removal: Vec<String>,
}

/// The commands for the files `entries`, in this order. `args` have the settings of earlier calls, too; paths of this machine
/// become names.
pub fn commands(
    args: &PublishOptions,
    entries: &[Entry],
    model: &ModelFacts,
    has_template: bool,
) -> Commands {
    let src = match (&model.source, &model.commit) {
        (Some(source), Some(commit)) => format!("hf://{source}@{commit}"),
        _ => name(&args.src),
    };
    let call = ["gguf-publish".to_owned(), src, name(&args.dir)];
    let type_name = |recipe: &Recipe| recipe.canonical_name().to_ascii_lowercase();
    let types: Vec<String> = entries
        .iter()
        .filter(|entry| entry.target_size.is_none())
        .map(|entry| type_name(entry.recipe))
        .collect();
    let sizes: Vec<String> =
        entries.iter().filter_map(|entry| entry.target_size).map(size_argument).collect();
    let mut command = call.to_vec();
    let mut removal = Vec::new();
    let mut set = |name: &'static str, values: Vec<String>| {
        if !values.is_empty() {
            command.push(words!("[-{}]", name).to_string());
            command.extend(values);
        }
    };
    match (&types[..], entries.first()) {
        // Without types, a call makes those of a ladder.
        ([], Some(entry)) => {
            let unwanted = type_name(entry.recipe);
            set("type", vec![unwanted.clone()]);
            removal = [&call[..], &[words!("[-remove]").to_string(), unwanted]].concat();
        }
        _ => set("type", vec![types.join(",")]),
    }
    let one = |value: Option<String>| value.into_iter().collect::<Vec<_>>();
    let number = |value: Option<u32>, default: u32| {
        one(value.filter(|value| *value != default).map(|value| value.to_string()))
    };
    let names = |paths: &[PathBuf]| paths.iter().map(|path| name(path)).collect::<Vec<_>>();
    set("calibrate", names(&args.calibrate));
    let default = crate::calibration::CalibrationOptions::default().calibration_tokens;
    set("calibration-tokens", number(args.calibration_tokens, default));
    set("target-size", one((!sizes.is_empty()).then(|| sizes.join(","))));
    set("imatrix-text", names(&args.imatrix_text));
    set("imatrix-chunks", one(args.imatrix_chunks.map(|n| n.to_string())));
    set("eval-text", names(&args.eval_text));
    set("chunks", number(args.chunks, CHUNKS));
    set("context", number(args.context, CONTEXT));
    let activations = args.activations.filter(|kind| *kind != Default::default());
    set("activations", one(activations.map(|kind| kind.name().to_owned())));
    set("fit-context", one(args.fit_context.map(|n| n.to_string())));
    set("base-type", one(args.base_type.map(type_name)));
    let split_max_size = args.split_max_size.filter(|bytes| *bytes != SPLIT_MAX_SIZE);
    set("split-max-size", one(split_max_size.map(size_argument)));
    set("chat-template", one(has_template.then(|| TEMPLATE.to_owned())));
    set("model-name", one(args.model_name.clone()));
    set("base-model", one(args.base_model.clone()));
    set("repo", one(args.repo.clone()));
    set("quantized-by", one(args.quantized_by.clone()));
    for draft in &args.draft {
        set("draft", vec![name(draft)]);
    }
    for (flag, is_set) in [("no-imatrix", args.no_imatrix), ("drop-dominated", args.drop_dominated)] {
        command.extend(is_set.then(|| words!("[-{}]", flag).to_string()));
    }
    Commands { command, removal }
}

/// A path without its folder; addresses of the Hub are public and stay.
fn name(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.contains("://") || !path.exists() {
        return text.into_owned();
    }
    let real = || fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path
        .file_name()
        .map_or_else(|| real().file_name().map(ToOwned::to_owned), |name| Some(name.to_owned()));
    name.unwrap_or_default().to_string_lossy().into_owned()
}
