//! Arguments of an earlier call to the same folder, and edits made since.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_conversion::recipes::Recipe;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    card::{RESULTS, SUMS},
    files::recipe_path,
    ladder::size_label,
    options::PublishOptions,
    results::FORMAT,
    work::{Work, sha256_of},
};
use crate::{error::Error, path_json, text::printable};

/// The stage that keeps the values of the last call.
const STAGE: &str = "call";

/// Values of a call that a later one need not repeat.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Earlier {
    types: Vec<String>,
    #[serde(with = "path_json::many")]
    calibration: Vec<PathBuf>,
    #[serde(with = "path_json::many")]
    eval: Vec<PathBuf>,
    #[serde(with = "path_json::many")]
    draft: Vec<PathBuf>,
    #[serde(with = "path_json::many")]
    calibrate: Vec<PathBuf>,
    calibration_tokens: Option<u32>,
    target_size: Vec<u64>,
    #[serde(with = "path_json::many")]
    chat_template: Vec<PathBuf>,
    no_imatrix: bool,
    imatrix_windows: Option<u32>,
    windows: Option<u32>,
    context: Option<u32>,
    base_model: Option<String>,
    model_name: Option<String>,
    repo: Option<String>,
    quantized_by: Option<String>,
}

impl Earlier {
    /// The values of the last call. Without a work folder, those that the published results in `out` have.
    pub fn of(work: &Work, out: &Path) -> Earlier {
        work.standing(STAGE, STAGE).unwrap_or_else(|| Earlier::published(out).unwrap_or_default())
    }

    /// Types and names of a publication without a work folder.
    fn published(out: &Path) -> Option<Earlier> {
        let results = published_results(out)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let types = results["rungs"].as_array()?.iter().filter_map(|rung| text(&rung["type"]));
        Some(Earlier {
            // Target sizes need the texts of the calibration, which are not published.
            types: types.filter(|name| Recipe::from_name(name).is_ok()).collect(),
            base_model: text(&results["model"]["base_model"]),
            ..Earlier::default()
        })
    }

    /// Keeps the values of this call.
    ///
    /// # Errors
    /// A state that cannot be written.
    pub fn save(args: &PublishOptions, types: &[&Recipe], work: &mut Work) -> Result<(), Error> {
        // A later call may be made in another folder.
        let absolute = |paths: &[PathBuf]| {
            paths.iter().map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone())).collect()
        };
        let values = Earlier {
            types: types.iter().map(|recipe| recipe.name.to_owned()).collect(),
            calibration: absolute(&args.imatrix_text),
            eval: absolute(&args.eval_text),
            draft: absolute(&args.draft),
            calibrate: absolute(&args.calibrate),
            calibration_tokens: args.calibration_tokens,
            target_size: args.target_size.clone(),
            chat_template: absolute(args.chat_template.as_slice()),
            no_imatrix: args.no_imatrix,
            imatrix_windows: args.imatrix_chunks,
            windows: Some(args.chunks() as u32),
            context: Some(args.context() as u32),
            base_model: args.base_model.clone(),
            model_name: args.model_name.clone(),
            repo: args.repo.clone(),
            quantized_by: args.quantized_by.clone(),
        };
        work.done(STAGE, STAGE, &[], &values)
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
        let has =
            |types: &[&'static Recipe], recipe: &Recipe| types.iter().any(|known| known.name == recipe.name);
        let names_types = !args.types.is_empty() || args.ladder.is_some() || !args.fit.is_empty();
        // After a removal, an empty list is meant.
        let is_kept = !types.is_empty() || !args.remove.is_empty();
        if is_kept && !names_types {
            return Ok(types);
        }
        // The order of a call that names them all.
        if types.iter().all(|recipe| has(&named, recipe)) {
            return Ok(named);
        }
        let new: Vec<_> = named.into_iter().filter(|recipe| !has(&types, recipe)).collect();
        types.extend(new);
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

    /// Fills in what this call leaves open. Returns the options that were filled in.
    pub fn fill(&self, args: &mut PublishOptions) -> Vec<String> {
        let mut filled = Vec::new();
        let files = |option: &str, paths: &[PathBuf]| {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            printable(&format!("{option} {}", paths.join(" ")))
        };
        if args.calibrate.is_empty() && !args.no_calibrate && !self.calibrate.is_empty() {
            args.calibrate.clone_from(&self.calibrate);
            filled.push(files("--calibrate", &self.calibrate));
        }
        if args.imatrix_text.is_empty() && !args.no_imatrix {
            if self.no_imatrix && args.calibrate.is_empty() && args.imatrix_chunks.is_none() {
                args.no_imatrix = true;
                filled.push("--no-imatrix".to_owned());
            } else if !self.calibration.is_empty() {
                args.imatrix_text.clone_from(&self.calibration);
                filled.push(files("--imatrix-text", &self.calibration));
            }
        }
        if let (None, Some(n), false) = (args.imatrix_chunks, self.imatrix_windows, args.no_imatrix) {
            args.imatrix_chunks = Some(n);
            filled.push(format!("--imatrix-chunks {n}"));
        }
        for (option, own, earlier) in
            [("--eval-text", &mut args.eval_text, &self.eval), ("--draft", &mut args.draft, &self.draft)]
        {
            if own.is_empty() && !earlier.is_empty() {
                own.clone_from(earlier);
                filled.push(files(option, earlier));
            }
        }
        for (name, own, earlier, default) in [
            ("chunks", &mut args.chunks, self.windows, 40),
            ("context", &mut args.context, self.context, 512),
        ] {
            if let (None, Some(earlier)) = (&own, earlier) {
                *own = Some(earlier);
                if earlier != default {
                    filled.push(format!("--{name} {earlier}"));
                }
            }
        }
        if let (None, Some(n), false) =
            (args.calibration_tokens, self.calibration_tokens, args.calibrate.is_empty())
        {
            args.calibration_tokens = Some(n);
            filled.push(format!("--calibration-tokens {n}"));
        }
        if let (None, [template]) = (&args.chat_template, &self.chat_template[..]) {
            args.chat_template = Some(template.clone());
            filled.push(files("--chat-template", &self.chat_template));
        }
        // Without a calibration there is nothing to choose types by.
        let kept = if args.replace_types || args.calibrate.is_empty() { &[][..] } else { &self.target_size };
        for size in kept.iter().filter(|size| !args.target_size.contains(size)).copied().collect::<Vec<_>>() {
            args.target_size.push(size);
        }
        for (option, own, earlier) in [
            ("--base-model", &mut args.base_model, &self.base_model),
            ("--model-name", &mut args.model_name, &self.model_name),
            ("--repo", &mut args.repo, &self.repo),
            ("--quantized-by", &mut args.quantized_by, &self.quantized_by),
        ] {
            if let (None, Some(earlier)) = (&own, earlier) {
                filled.push(printable(&format!("{option} {earlier}")));
                *own = Some(earlier.clone());
            }
        }
        filled
    }
}

/// The results of an earlier run in a folder, if there are any.
pub fn published_results(out: &Path) -> Option<Value> {
    let results: Value = serde_json::from_slice(&fs::read(out.join(RESULTS)).ok()?).ok()?;
    (results["format"] == FORMAT).then_some(results)
}

/// Files of the types `labels`, as an earlier run published them.
///
/// # Errors
/// A type that is not published.
pub fn files_of(labels: &[String], out: &Path) -> Result<Vec<PathBuf>, Error> {
    let results = published_results(out).unwrap_or_default();
    let rungs = results["rungs"].as_array().map_or(&[][..], Vec::as_slice);
    let label_of = |rung: &Value| rung["type"].as_str().unwrap_or_default().to_owned();
    let mut files = Vec::new();
    for label in labels {
        let Some(rung) = rungs.iter().find(|rung| label_of(rung).eq_ignore_ascii_case(label)) else {
            let known: Vec<String> = rungs.iter().map(label_of).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("type `{label}` is not published");
            return Err(Error::usage(message).hint([format!("published types: {known}")]));
        };
        let names = rung["files"].as_array().into_iter().flatten().filter_map(|file| file["name"].as_str());
        // Only names in this folder: the results may be edited.
        files.extend(names.filter_map(|name| Path::new(name).file_name()).map(|name| out.join(name)));
        files.push(recipe_path(&label_of(rung), out));
    }
    Ok(files)
}

/// Files of the folder that were changed since the last run.
///
/// # Errors
/// A file that cannot be read.
pub fn edited(out: &Path, work: &Work) -> Result<Vec<String>, Error> {
    let Ok(sums) = fs::read_to_string(out.join(SUMS)) else { return Ok(Vec::new()) };
    let mut edited = Vec::new();
    for line in sums.lines() {
        let Some((digest, name)) = line.split_once("  ") else { continue };
        let path = out.join(name);
        // A file that is as a stage left it need not be read.
        if path.is_file() && !work.left(&path) && sha256_of(&path)? != digest {
            edited.push(printable(name));
        }
    }
    Ok(edited)
}

/// The call as the published folder states it: paths of this machine become names.
pub fn published_call(args: &PublishOptions) -> Vec<String> {
    let name = |path: &Path| {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().or(real.file_name()).unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    // Addresses of the Hub are public.
    let is_local = |path: &&PathBuf| !path.to_string_lossy().contains("://") && path.as_os_str() != "";
    let local: Vec<&PathBuf> = [&args.src, &args.dir]
        .into_iter()
        .chain(&args.imatrix_text)
        .chain(&args.eval_text)
        .chain(&args.draft)
        .chain(&args.calibrate)
        .chain(&args.chat_template)
        .filter(is_local)
        .collect();
    let shown = |argument: &std::ffi::OsString| {
        let (option, value) = match argument.to_string_lossy().split_once('=') {
            Some((option, value)) if option.starts_with("--") => (format!("{option}="), value.to_owned()),
            _ => (String::new(), argument.to_string_lossy().into_owned()),
        };
        let is_repository = value == args.src.to_string_lossy() && !args.src.exists();
        match local.iter().find(|path| path.to_string_lossy() == value) {
            Some(path) if !is_repository => option + &name(path),
            _ => option + &value,
        }
    };
    args.command.iter().map(shown).collect()
}
