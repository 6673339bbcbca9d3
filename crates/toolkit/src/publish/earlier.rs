//! Arguments of an earlier call to the same folder, and edits made since.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_conversion::recipes::Recipe;
use serde::{Deserialize, Serialize};

use super::{
    card::SUMS,
    options::PublishOptions,
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
    no_imatrix: bool,
    imatrix_windows: Option<u32>,
    windows: Option<u32>,
    context: Option<u32>,
    base_model: Option<String>,
    quantized_by: Option<String>,
}

impl Earlier {
    /// The values of the last call that was finished.
    pub fn of(work: &Work) -> Earlier {
        work.standing(STAGE, STAGE).unwrap_or_default()
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
            no_imatrix: args.no_imatrix,
            imatrix_windows: args.imatrix_chunks,
            windows: Some(args.chunks() as u32),
            context: Some(args.context() as u32),
            base_model: args.base_model.clone(),
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
        if !names_types && !types.is_empty() {
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

    /// Fills in what this call leaves open. Returns the options that were filled in.
    pub fn fill(&self, args: &mut PublishOptions) -> Vec<String> {
        let mut filled = Vec::new();
        let files = |option: &str, paths: &[PathBuf]| {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            printable(&format!("{option} {}", paths.join(" ")))
        };
        if args.imatrix_text.is_empty() && !args.no_imatrix {
            if self.no_imatrix && args.imatrix_chunks.is_none() {
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
        for (option, own, earlier) in [
            ("--base-model", &mut args.base_model, &self.base_model),
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
