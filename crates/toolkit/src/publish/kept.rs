//! Options that a run leaves to later ones, and the command of the card, which makes all files from scratch.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_conversion::recipes::Recipe;
use gguf_runtime::Activations;
use serde_json::{Map, Value};

use super::{
    ladder::{Entry, size_argument, size_label},
    names::RESULTS,
    options::{CHUNKS, CONTEXT, PublishOptions, SPLIT_MAX_SIZE},
    results::ModelFacts,
    work::Work,
};
use crate::{
    calibration::CalibrationOptions,
    calibration_text::is_word,
    call::option_name,
    chats::is_file_of_chats,
    error::Error,
    path_json,
    text::{file_name, printable},
};
use gguf_types::{Words, words};

/// The stage that keeps the options of the last run.
const STAGE: &str = "call";

/// Fields that concern one run, or the machine that it runs on.
const OF_RUN: [&str; 14] = [
    "src",
    "dir",
    "ladder",
    "fit",
    "no_calibrate",
    "remove",
    "chat_template",
    "card_metadata",
    "drop_dominated",
    "replace_types",
    "force",
    "threads",
    "level",
    "executable",
];

/// Options of a run. `types` are those of all files. Files in results are names without folders.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    pub options: PublishOptions,
    /// The text of a template that replaces the one of the source.
    pub chat_template: Option<String>,
    /// YAML keys for the front matter of the card, until it is written.
    pub card_metadata: Option<String>,
}

/// Options of a call with those of the last run.
pub struct Combined {
    pub options: PublishOptions,
    /// Options that were filled in, for people.
    pub filled: Vec<Words>,
    /// True if the importance matrix of the folder is kept, because its texts are known by name only.
    pub keeps_matrix: bool,
}

/// Restores the options that [`Kept::record`] returned, after a run that failed.
pub fn restore(former: Option<Value>, out: &Path) {
    // The error of the run is reported.
    let _ = Work::open(out).and_then(|mut work| match &former {
        Some(options) => work.done(STAGE, STAGE, &[], options),
        None => work.forget(STAGE),
    });
}

impl Kept {
    /// The options of the last run: with paths if they were recorded on this machine, otherwise those of the results.
    ///
    /// # Errors
    /// Options of another version of the program.
    pub fn of(work: &Work, results: Option<&Value>, out: &Path) -> Result<Kept, Error> {
        let parsed = |fields: Value| {
            Kept::of_json(fields).map_err(|error| {
                Error::at(&out.join(RESULTS), format_args!("unknown options of an earlier run: {error}"))
                    .hint(["use the version that wrote the folder, or choose another folder"])
            })
        };
        if let Some(fields) = work.standing(STAGE, STAGE) {
            return parsed(fields);
        }
        let Some(results) = results else { return Ok(Kept::default()) };
        let mut kept = parsed(results["settings"].clone())?;
        let base_model = results["model"]["base_model"].as_str().map(str::to_owned);
        kept.options.base_model = kept.options.base_model.or(base_model);
        // Results can be edited: only names, never paths of this machine.
        Ok(kept.named())
    }

    fn of_json(mut fields: Value) -> Result<Kept, serde_json::Error> {
        let mut text = |name: &str| -> Result<Option<String>, serde_json::Error> {
            let text = fields.as_object_mut().and_then(|fields| fields.remove(name));
            serde_json::from_value(text.unwrap_or_default())
        };
        let (chat_template, card_metadata) = (text("chat_template")?, text("card_metadata")?);
        let mut kept = Kept { chat_template, card_metadata, ..Kept::default() };
        if let Value::Object(fields) = fields {
            kept.options = serde_json::from_value(Value::Object(set(fields)))?;
        }
        Ok(kept)
    }

    /// The options as JSON.
    pub fn to_json(&self) -> Result<Value, Error> {
        let mut fields = fields_of(&self.options)?;
        fields.retain(|name, _| !OF_RUN.contains(&name.as_str()));
        let texts = [("chat_template", &self.chat_template), ("card_metadata", &self.card_metadata)];
        let text = |(name, text): (&str, &Option<String>)| Some((name.to_owned(), text.clone()?.into()));
        fields.extend(texts.into_iter().filter_map(text));
        Ok(Value::Object(fields))
    }

    /// The options of a run that writes `types` with this chat template.
    pub fn of_run(
        args: &PublishOptions,
        types: &[&'static Recipe],
        chat_template: Option<&str>,
        keeps_matrix: bool,
    ) -> Kept {
        let mut options = args.clone();
        options.types = types.iter().copied().map(canonical).collect();
        options.types.sort_unstable_by_key(|recipe| recipe.canonical_name());
        options.target_size.sort_unstable();
        options.chunks = Some(args.chunks() as u32);
        options.context = Some(args.context() as u32);
        for path in options.draft.iter_mut().filter(|path| !path.exists() && !is_address(path)) {
            *path = PathBuf::from(format!("hf://{}", path.display()));
        }
        // A later call may be made in another folder.
        let exists = |path: &&mut PathBuf| path.exists();
        for path in options.files().flatten().filter(exists) {
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
        }
        if keeps_matrix {
            options.imatrix_text.clone_from(&args.imatrix_text);
        }
        Kept { options, chat_template: chat_template.map(str::to_owned), card_metadata: None }
    }

    /// The options with names of files instead of paths, for the results.
    #[must_use]
    pub fn named(mut self) -> Kept {
        for path in self.options.files().flatten().filter(|path| !is_address(path) && !is_word(path)) {
            let name = PathBuf::from(file_name(path));
            // The file ./builtin is not the built-in text.
            *path = if is_word(&name) { Path::new(".").join(name) } else { name };
        }
        self
    }

    /// Records the options and returns those recorded before, if any.
    pub fn record(&self, work: &mut Work) -> Result<Option<Value>, Error> {
        let former = work.standing(STAGE, STAGE);
        work.done(STAGE, STAGE, &[], &self.to_json()?)?;
        Ok(former)
    }

    /// The types of this call and, unless they are to be replaced, those of the earlier one.
    pub fn with_types(&self, given: &PublishOptions, named: Vec<&'static Recipe>) -> Vec<&'static Recipe> {
        if given.replace_types {
            return named;
        }
        let mut types = self.options.types.clone();
        let names_types = !given.types.is_empty() || given.ladder.is_some() || !given.fit.is_empty();
        // After a removal, an empty list is meant.
        let is_kept = !types.is_empty() || !given.remove.is_empty() || !self.options.target_size.is_empty();
        if is_kept && !names_types {
            return types;
        }
        for recipe in named {
            if !types.iter().any(|known| known.canonical_name() == recipe.canonical_name()) {
                types.push(recipe);
            }
        }
        types
    }

    /// Forgets files that are to be removed, by the names of their types.
    pub fn remove(&mut self, labels: &[String]) {
        self.options.types.retain(|recipe| !is_one_of(labels, recipe.canonical_name()));
        self.options.target_size.retain(|size| !labels.iter().any(|label| is_of_size(label, *size)));
    }

    /// Fills in what a call leaves open: each field that has its default value there.
    ///
    /// # Errors
    /// Texts and drafts that are known by name only, because the options are those of the results.
    pub fn combine(&self, given: &PublishOptions) -> Result<Combined, Error> {
        let mut last = self.options.clone();
        // Types and sizes of earlier runs are added to those of the call.
        last.types.clear();
        if given.no_calibrate {
            last.calibrate.clear();
        }
        let is_calibrated = !given.calibrate.is_empty() || !last.calibrate.is_empty();
        if !is_calibrated {
            last.calibration_tokens = None;
        }
        let sizes = std::mem::take(&mut last.target_size);
        let keeps_matrix = settle_matrix(given, &mut last);
        let (mut fields, last) = (fields_of(given)?, fields_of(&last)?);
        let defaults = fields_of(&defaults())?;
        let (mut filled, mut missing) = (Vec::new(), Vec::new());
        for (name, value) in last {
            if fields.contains_key(&name) {
                continue;
            }
            let is_kept_matrix = keeps_matrix && name == "imatrix_text";
            if !are_known(&value) && !is_kept_matrix {
                missing.push(option(&name, &value));
            } else if defaults.get(&name) != Some(&value) && !is_kept_matrix {
                filled.push(option(&name, &value));
            }
            fields.insert(name, value);
        }
        if !missing.is_empty() {
            let message = "files of the earlier run are not in the published folder";
            let hint = words!("pass them again: ") + Words::joined(&missing, " ");
            return Err(Error::at(&given.dir, message).hint([hint]));
        }
        let mut options: PublishOptions =
            serde_json::from_value(Value::Object(fields)).map_err(Error::new)?;
        if is_calibrated && !given.replace_types {
            let is_new = |size: &u64| !given.target_size.contains(size);
            options.target_size.extend(sizes.into_iter().filter(is_new));
        }
        if given.chat_template.is_none() && self.chat_template.is_some() {
            filled.push(words!("[-chat-template]"));
        }
        if given.card_metadata.is_none() && self.card_metadata.is_some() {
            filled.push(words!("[-card-metadata]"));
        }
        Ok(Combined { options, filled, keeps_matrix })
    }
}

/// Drops options of the last run about the importance matrix that do not fit those of the call. True if the matrix
/// of the folder is kept.
fn settle_matrix(given: &PublishOptions, last: &mut PublishOptions) -> bool {
    if given.no_imatrix {
        last.imatrix_text.clear();
        last.imatrix_chunks = None;
        return false;
    }
    let is_calibrated = !given.calibrate.is_empty() || !last.calibrate.is_empty();
    if !given.imatrix_text.is_empty() || is_calibrated || given.imatrix_chunks.is_some() {
        last.no_imatrix = false;
    }
    let is_of_template = last.imatrix_text.iter().any(|path| is_file_of_chats(path));
    let is_same = given.imatrix_chunks.is_none_or(|n| Some(n) == last.imatrix_chunks)
        && given.context.is_none_or(|n| Some(n) == last.context)
        && given.activations.is_none_or(|kind| kind == last.activations())
        && !(is_of_template && given.chat_template.is_some());
    given.imatrix_text.is_empty() && is_same && !last.imatrix_text.iter().all(|path| is_known(path))
}

/// The type under the name that files and cards have.
fn canonical(recipe: &'static Recipe) -> &'static Recipe {
    Recipe::from_name(recipe.canonical_name()).unwrap_or(recipe)
}

/// The fields that have a value.
fn fields_of(options: &PublishOptions) -> Result<Map<String, Value>, Error> {
    match serde_json::to_value(options).map_err(Error::new)? {
        Value::Object(fields) => Ok(set(fields)),
        _ => Ok(Map::new()),
    }
}

fn set(mut fields: Map<String, Value>) -> Map<String, Value> {
    let is_unset = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    fields.retain(|_, value| !is_unset(value));
    fields
}

/// Options with the values that they have if neither a call nor an earlier one names them.
fn defaults() -> PublishOptions {
    PublishOptions {
        calibration_tokens: Some(CalibrationOptions::default().calibration_tokens),
        chunks: Some(CHUNKS),
        context: Some(CONTEXT),
        split_max_size: Some(SPLIT_MAX_SIZE),
        activations: Some(Activations::default()),
        ..PublishOptions::default()
    }
}

/// The values of an option, an argument each.
fn arguments(name: &str, value: &Value) -> Vec<String> {
    let text = |value: &Value| match (value.as_u64(), path_json::of_json(value)) {
        (Some(bytes), _) if name.ends_with("_size") => size_argument(bytes),
        (_, Some(path)) => path.to_string_lossy().into_owned(),
        _ => value.to_string(),
    };
    match value {
        Value::Bool(_) => Vec::new(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            if ["types", "target_size"].contains(&name) { vec![items.join(",")] } else { items }
        }
        value => vec![text(value)],
    }
}

/// An option with its values, for people.
fn option(name: &str, value: &Value) -> Words {
    match &arguments(name, value)[..] {
        [] => option_name(name),
        values => words!("[-{} {}]", name.replace('_', "-"), printable(&values.join(" "))),
    }
}

/// True for a model of the Hub, whose address is public.
fn is_address(path: &Path) -> bool {
    path.to_string_lossy().contains("://")
}

/// False for a file of another machine, of which only the name is known.
fn is_known(path: &Path) -> bool {
    path.is_absolute() || is_address(path) || is_word(path)
}

/// False for a list with files of another machine.
fn are_known(value: &Value) -> bool {
    value
        .as_array()
        .is_none_or(|paths| paths.iter().filter_map(path_json::of_json).all(|path| is_known(&path)))
}

/// True if a name in the card is one of these, in any case.
pub fn is_one_of(labels: &[String], name: &str) -> bool {
    labels.iter().any(|label| label.eq_ignore_ascii_case(name))
}

/// True for the name of a file of this target size.
pub fn is_of_size(label: &str, size: u64) -> bool {
    label.rsplit_once('-').is_some_and(|(_, end)| end.eq_ignore_ascii_case(&size_label(size)))
}

/// The call that makes the files `entries` in this order, an argument each, and a call that removes the type that the first one
/// has to name; the latter is empty if types are published. Paths of this machine become names. `args` has the published template
/// and card instead of the files that they were made from.
pub fn commands(
    args: &PublishOptions,
    entries: &[Entry],
    model: &ModelFacts,
) -> Result<[Vec<String>; 2], Error> {
    let src = model.address().unwrap_or_else(|| match &model.base_model {
        // Readers do not have the folder.
        Some(base) if !args.has_gguf_source() => format!("hf://{base}"),
        _ => name(&args.src),
    });
    let call = ["gguf-publish".to_owned(), src, name(&args.dir)];
    let mut options = args.clone();
    options.target_size = entries.iter().filter_map(|entry| entry.target_size).collect();
    let of_types = entries.iter().filter(|entry| entry.target_size.is_none());
    options.types = of_types.map(|entry| canonical(entry.recipe)).collect();
    let mut removal = Vec::new();
    // Without types, a call makes those of a ladder.
    if let (true, Some(entry)) = (options.types.is_empty(), entries.first()) {
        options.types.push(canonical(entry.recipe));
        let unwanted = entry.recipe.canonical_name().to_ascii_lowercase();
        removal = [&call[..], &[words!("[-remove]").to_string(), unwanted]].concat();
    }
    options.files().flatten().for_each(|path| *path = name(path).into());
    let defaults = fields_of(&defaults())?;
    let mut fields = fields_of(&options)?;
    fields.retain(|name, value| {
        let is_named = ["chat_template", "card_metadata", "drop_dominated"].contains(&name.as_str());
        (is_named || !OF_RUN.contains(&name.as_str())) && defaults.get(name) != Some(value)
    });
    let mut command = call.to_vec();
    for (name, value) in &fields {
        let flag = option_name(name).to_string();
        match (name.as_str(), arguments(name, value)) {
            // A value for each.
            ("draft", paths) => command.extend(paths.into_iter().flat_map(|path| [flag.clone(), path])),
            (_, values) => command.extend([flag].into_iter().chain(values)),
        }
    }
    Ok([command, removal])
}

/// A path without its folder; addresses of the Hub are public and stay.
fn name(path: &Path) -> String {
    let text = path.to_string_lossy();
    if is_address(path) || !path.exists() {
        return text.into_owned();
    }
    let real = || fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path
        .file_name()
        .map_or_else(|| real().file_name().map(ToOwned::to_owned), |name| Some(name.to_owned()));
    name.unwrap_or_default().to_string_lossy().into_owned()
}
