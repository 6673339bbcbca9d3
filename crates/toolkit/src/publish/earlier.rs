//! Settings of the last run, which a later one need not repeat.

use std::path::{Path, PathBuf};

use gguf_conversion::recipes::Recipe;
use gguf_runtime::Activations;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    files::recipe_path,
    ladder::{size_argument, size_label},
    options::{self, PublishOptions},
    published,
    work::Work,
};
use crate::{
    calibration_text::is_word,
    chats::is_file_of_chats,
    error::Error,
    path_json,
    text::{file_name, printable},
};
use gguf_types::{Words, words};

/// The stage that keeps the settings of the last run.
const STAGE: &str = "call";

/// Settings of a run. Those in the results have the names of files instead of their paths.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Earlier {
    types: Vec<String>,
    target_size: Vec<u64>,
    base_type: Option<String>,
    split_max_size: Option<u64>,
    #[serde(with = "path_json::many")]
    imatrix_text: Vec<PathBuf>,
    imatrix_chunks: Option<u32>,
    no_imatrix: bool,
    #[serde(with = "path_json::many")]
    calibrate: Vec<PathBuf>,
    calibration_tokens: Option<u32>,
    #[serde(with = "path_json::many")]
    eval_text: Vec<PathBuf>,
    chunks: Option<u32>,
    context: Option<u32>,
    activations: Option<Activations>,
    fit_context: Option<u64>,
    #[serde(with = "path_json::many")]
    draft: Vec<PathBuf>,
    /// The text of a template that replaces the one of the source.
    chat_template: Option<String>,
    model_name: Option<String>,
    base_model: Option<String>,
    repo: Option<String>,
    quantized_by: Option<String>,
}

/// Options that were filled in.
#[derive(Debug, Default)]
pub struct Filled {
    /// Options with their values, for people.
    pub options: Vec<Words>,
    /// True if the importance matrix of the folder is kept, because its texts are known by name only.
    pub keeps_matrix: bool,
}

/// The settings that were recorded before a run, which are restored if it fails.
#[derive(Debug)]
pub struct Former {
    folder: PathBuf,
    settings: Option<Earlier>,
}

impl Former {
    /// Restores the settings.
    pub fn restore(self) {
        // The run has failed, and its error is reported.
        let _ = Work::open(&self.folder).and_then(|mut work| match &self.settings {
            Some(settings) => work.done(STAGE, STAGE, &[], settings),
            None => work.forget(STAGE),
        });
    }
}

impl Earlier {
    /// The settings of the last run: with paths if they were recorded on this machine, otherwise those of the results.
    pub fn of(work: &Work, results: Option<&Value>) -> Earlier {
        work.standing(STAGE, STAGE).or_else(|| results.map(Earlier::published)).unwrap_or_default()
    }

    fn published(results: &Value) -> Earlier {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut earlier = Earlier::deserialize(&results["settings"]).unwrap_or_default();
        earlier.types.retain(|name| Recipe::from_name(name).is_ok());
        earlier.base_model = earlier.base_model.or_else(|| text(&results["model"]["base_model"]));
        // Results can be edited: only names, never paths of this machine.
        earlier.named()
    }

    /// The settings of a run with these options, which wrote `types` with this chat template.
    pub fn of_call(
        args: &PublishOptions,
        types: &[&Recipe],
        chat_template: Option<&str>,
        filled: &Filled,
    ) -> Earlier {
        // A later call may be made in another folder.
        let absolute = |path: &PathBuf| match std::path::absolute(path) {
            Ok(absolute) if path.exists() => absolute,
            _ => path.clone(),
        };
        let of_hub = |path: &PathBuf| match path.exists() || is_address(path) {
            true => absolute(path),
            false => PathBuf::from(format!("hf://{}", path.display())),
        };
        let mut types: Vec<String> = types.iter().map(|recipe| recipe.canonical_name().to_owned()).collect();
        types.sort_unstable();
        let mut target_size = args.target_size.clone();
        target_size.sort_unstable();
        Earlier {
            types,
            target_size,
            base_type: args.base_type.map(|recipe| recipe.canonical_name().to_owned()),
            split_max_size: args.split_max_size,
            imatrix_text: match filled.keeps_matrix {
                true => args.imatrix_text.clone(),
                false => args.imatrix_text.iter().map(absolute).collect(),
            },
            imatrix_chunks: args.imatrix_chunks,
            no_imatrix: args.no_imatrix,
            calibrate: args.calibrate.iter().map(absolute).collect(),
            calibration_tokens: args.calibration_tokens,
            eval_text: args.eval_text.iter().map(absolute).collect(),
            chunks: Some(args.chunks() as u32),
            context: Some(args.context() as u32),
            activations: args.activations,
            fit_context: args.fit_context,
            draft: args.draft.iter().map(of_hub).collect(),
            chat_template: chat_template.map(str::to_owned),
            model_name: args.model_name.clone(),
            base_model: args.base_model.clone(),
            repo: args.repo.clone(),
            quantized_by: args.quantized_by.clone(),
        }
    }

    /// The settings with names of files instead of paths, for the results.
    pub fn named(mut self) -> Earlier {
        for path in [&mut self.imatrix_text, &mut self.calibrate, &mut self.eval_text, &mut self.draft]
            .into_iter()
            .flatten()
            .filter(|path| !is_address(path) && !is_word(path))
        {
            let name = PathBuf::from(file_name(path));
            // The file ./builtin is not the built-in text.
            *path = if is_word(&name) { Path::new(".").join(name) } else { name };
        }
        self
    }

    /// Records the settings and returns those recorded before.
    ///
    /// # Errors
    /// A state that cannot be written.
    pub fn record(&self, out: &Path, work: &mut Work) -> Result<Former, Error> {
        let former = Former { folder: out.to_owned(), settings: work.standing(STAGE, STAGE) };
        work.done(STAGE, STAGE, &[], self)?;
        Ok(former)
    }

    /// The template that replaces the one of the source.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// The types of this call and, unless they are to be replaced, those of the earlier one.
    pub fn with_types(
        &self,
        args: &PublishOptions,
        named: Vec<&'static Recipe>,
    ) -> Result<Vec<&'static Recipe>, Error> {
        if args.replace_types {
            return Ok(named);
        }
        let earlier = self.types.iter().map(|name| Recipe::from_name(name).map_err(Error::new));
        let mut types: Vec<&'static Recipe> = earlier.collect::<Result<_, Error>>()?;
        let names_types = !args.types.is_empty() || args.ladder.is_some() || !args.fit.is_empty();
        // After a removal, an empty list is meant.
        let is_kept = !types.is_empty() || !args.remove.is_empty() || !self.target_size.is_empty();
        if is_kept && !names_types {
            return Ok(types);
        }
        for recipe in named {
            if !types.iter().any(|known| known.canonical_name() == recipe.canonical_name()) {
                types.push(recipe);
            }
        }
        Ok(types)
    }

    /// Forgets files that are to be removed, by the names of their types.
    pub fn remove(&mut self, labels: &[String]) {
        let is_removed = |label: &str| labels.iter().any(|removed| removed.eq_ignore_ascii_case(label));
        self.types.retain(|name| {
            let recipe = Recipe::from_name(name).ok();
            !recipe.is_some_and(|recipe| is_removed(recipe.canonical_name()))
        });
        self.target_size.retain(|size| {
            let ends = |label: &String| {
                label.rsplit_once('-').is_some_and(|(_, end)| end.eq_ignore_ascii_case(&size_label(*size)))
            };
            !labels.iter().any(ends)
        });
    }

    /// Fills in what this call leaves open.
    ///
    /// # Errors
    /// Texts and drafts that are known by name only, because the settings are those of the results.
    pub fn fill(&self, args: &mut PublishOptions) -> Result<Filled, Error> {
        let mut filled = Filled::default();
        let mut missing = Vec::new();
        let mut take = |name: &'static str, own: &mut Vec<PathBuf>, earlier: &[PathBuf]| {
            if own.is_empty() && !earlier.is_empty() {
                own.extend_from_slice(earlier);
                let list = if are_known(earlier) { &mut filled.options } else { &mut missing };
                list.push(with_files(name, earlier));
            }
        };
        if !args.no_calibrate {
            take("calibrate", &mut args.calibrate, &self.calibrate);
        }
        take("eval-text", &mut args.eval_text, &self.eval_text);
        take("draft", &mut args.draft, &self.draft);
        if args.imatrix_text.is_empty() && !args.no_imatrix {
            let is_of_template = self.imatrix_text.iter().any(|path| is_file_of_chats(path));
            let is_same = args.imatrix_chunks.is_none_or(|n| Some(n) == self.imatrix_chunks)
                && args.context.is_none_or(|n| Some(n) == self.context)
                && args.activations.is_none_or(|kind| kind == self.activations.unwrap_or_default())
                && !(is_of_template && args.chat_template.is_some());
            if self.no_imatrix && args.calibrate.is_empty() && args.imatrix_chunks.is_none() {
                args.no_imatrix = true;
                filled.options.push(words!("[-no-imatrix]"));
            } else if !are_known(&self.imatrix_text) && is_same {
                args.imatrix_text.clone_from(&self.imatrix_text);
                filled.keeps_matrix = true;
            } else {
                take("imatrix-text", &mut args.imatrix_text, &self.imatrix_text);
            }
        }
        if !missing.is_empty() {
            let message = "files of the earlier run are not in the published folder";
            let hint = words!("pass them again: ") + Words::joined(&missing, " ");
            return Err(Error::at(&args.dir, message).hint([hint]));
        }
        let mut note = |name: &'static str, value: &dyn std::fmt::Display| {
            filled.options.push(words!("[-{} {}]", name, printable(&value.to_string())));
        };
        // Without a calibration there is nothing to choose types by.
        let kept = if args.replace_types || args.calibrate.is_empty() { &[][..] } else { &self.target_size };
        for size in kept {
            if !args.target_size.contains(size) {
                args.target_size.push(*size);
            }
        }
        for (name, own, earlier, default, is_wanted) in [
            ("imatrix-chunks", &mut args.imatrix_chunks, self.imatrix_chunks, None, !args.no_imatrix),
            ("chunks", &mut args.chunks, self.chunks, Some(options::CHUNKS), true),
            ("context", &mut args.context, self.context, Some(options::CONTEXT), true),
            (
                "calibration-tokens",
                &mut args.calibration_tokens,
                self.calibration_tokens,
                None,
                !args.calibrate.is_empty(),
            ),
        ] {
            if let (None, Some(n), true) = (&own, earlier, is_wanted) {
                *own = Some(n);
                if earlier != default {
                    note(name, &n);
                }
            }
        }
        if let (None, Some(n)) = (args.fit_context, self.fit_context) {
            args.fit_context = Some(n);
            note("fit-context", &n);
        }
        if let (None, Some(n)) = (args.split_max_size, self.split_max_size) {
            args.split_max_size = Some(n);
            note("split-max-size", &size_argument(n));
        }
        if let (None, Some(kind)) = (args.activations, self.activations) {
            args.activations = Some(kind);
            note("activations", &kind.name());
        }
        if let (None, Some(name)) = (args.base_type, &self.base_type) {
            args.base_type = Some(Recipe::from_name(name).map_err(Error::new)?);
            note("base-type", name);
        }
        for (name, own, earlier) in [
            ("base-model", &mut args.base_model, &self.base_model),
            ("model-name", &mut args.model_name, &self.model_name),
            ("repo", &mut args.repo, &self.repo),
            ("quantized-by", &mut args.quantized_by, &self.quantized_by),
        ] {
            if let (None, Some(earlier)) = (&own, earlier) {
                note(name, earlier);
                *own = Some(earlier.clone());
            }
        }
        if args.chat_template.is_none() && self.chat_template.is_some() {
            filled.options.push(words!("[-chat-template]"));
        }
        Ok(filled)
    }
}

/// True for a model of the Hub, whose address is public.
fn is_address(path: &Path) -> bool {
    path.to_string_lossy().contains("://")
}

/// False for files of another machine, of which only the names are known.
fn are_known(paths: &[PathBuf]) -> bool {
    paths.iter().all(|path| path.is_absolute() || is_address(path) || is_word(path))
}

/// An option with its files, for people.
pub fn with_files(name: &'static str, paths: &[PathBuf]) -> Words {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    words!("[-{} {}]", name, printable(&paths.join(" ")))
}

/// Files of the types `labels`, as the last run published them.
///
/// # Errors
/// A type that is not published.
pub fn files_of(labels: &[String], results: Option<&Value>, out: &Path) -> Result<Vec<PathBuf>, Error> {
    let rungs = published::rungs(results);
    let label_of = |rung: &Value| rung["type"].as_str().unwrap_or_default().to_owned();
    let mut files = Vec::new();
    for label in labels {
        let Some(rung) = rungs.iter().find(|rung| label_of(rung).eq_ignore_ascii_case(label)) else {
            let known: Vec<String> = rungs.iter().map(label_of).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("type `{label}` is not published");
            return Err(Error::usage(message).hint([format!("published types: {known}")]));
        };
        files.extend(published::names(rung).into_iter().map(|name| out.join(name)));
        files.push(recipe_path(&label_of(rung), out));
    }
    Ok(files)
}
