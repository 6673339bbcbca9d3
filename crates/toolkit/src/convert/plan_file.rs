//! Plans of conversions on several machines: a file that fixes everything, for calls that convert one part each.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use gguf_conversion::{Fingerprint, PlannedFile, parts::Rates};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::Error,
    events::Events,
    text::{human_bytes, pretty_json},
};

/// Value of `format`.
const FORMAT: &str = "gguf-tools plan";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 2;

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Distinguishes plans from other JSON.
    format: String,
    /// The version of this format.
    version: u32,
    /// The program and its version.
    program: String,
    /// The folder that relative paths start from.
    folder: PathBuf,
    /// The JSON form of the conversion: its operation and options.
    conversion: Value,
    /// State that the bytes depend on: program, options, inputs, outputs.
    fingerprint: Value,
    /// Cost per element of each type, which determines the parts.
    picoseconds_per_element: BTreeMap<String, u64>,
    /// Every file and where each tensor lies in it.
    outputs: Vec<PlannedOutput>,
}

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedOutput {
    name: String,
    bytes: u64,
    tensors: Vec<PlannedTensor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedTensor {
    name: String,
    dtype: String,
    /// Row length first.
    shape: Vec<u64>,
    offset: u64,
    bytes: u64,
}

impl PlannedOutput {
    fn new(path: &Path, file: &PlannedFile) -> PlannedOutput {
        let tensor = |tensor: &gguf_container::PlannedTensor| PlannedTensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name().to_owned(),
            shape: tensor.shape.dims().to_vec(),
            offset: tensor.offset,
            bytes: tensor.n_bytes,
        };
        PlannedOutput {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: file.plan.file_len(),
            tensors: file.plan.tensors().iter().map(tensor).collect(),
        }
    }
}

/// Contents of a new plan.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'a> {
    /// Name of the program, without its version.
    pub program: &'a str,
    /// The folder that relative paths start from.
    pub folder: &'a Path,
    /// The JSON form of the conversion.
    pub conversion: &'a Value,
    /// State that the bytes depend on.
    pub fingerprint: &'a Fingerprint,
    /// Costs that determine the parts.
    pub rates: &'a Rates,
    /// Every file and its path.
    pub files: &'a [(PathBuf, &'a PlannedFile)],
}

/// Writes a plan of files that were planned and checked.
///
/// # Errors
/// A file that cannot be written.
pub fn save(path: &Path, contents: Contents<'_>, events: &dyn Events) -> Result<(), Error> {
    let Contents { program: binary, folder, conversion, fingerprint, rates, files } = contents;
    let n_bytes = files.iter().map(|(_, file)| file.plan.file_len()).sum();
    let plan = PlanFile {
        format: FORMAT.to_owned(),
        version: VERSION,
        program: program(binary),
        folder: folder.to_owned(),
        conversion: conversion.clone(),
        fingerprint: fingerprint.to_json(),
        picoseconds_per_element: rates.by_type().clone(),
        outputs: files.iter().map(|(path, file)| PlannedOutput::new(path, file)).collect(),
    };
    let text = pretty_json(&plan)?;
    gguf_container::Output::write_whole(path, text.as_bytes(), true).map_err(Error::new)?;
    let (path, size) = (path.display(), human_bytes(n_bytes));
    events.status(format!("wrote {path}: a plan of {} files, {size}", files.len()));
    Ok(())
}

/// A program as a plan names it.
fn program(binary: &str) -> String {
    format!("{binary} {}", env!("CARGO_PKG_VERSION"))
}

/// Reason why a text is not a plan of this version.
fn unreadable(text: &str, error: &serde_json::Error) -> String {
    let other: Option<Value> = serde_json::from_str(text).ok();
    let version = other.filter(|plan| plan["format"] == FORMAT).map(|plan| plan["version"].clone());
    match version.filter(|version| *version != VERSION) {
        Some(version) => format!("expected version `{VERSION}`, found `{version}`"),
        None => format!("not a plan file: {error}"),
    }
}

impl PlanFile {
    /// Reads the text of a plan for a program.
    ///
    /// # Errors
    /// Invalid contents.
    pub fn parse(text: &str, binary: &str) -> Result<PlanFile, String> {
        let plan: PlanFile = serde_json::from_str(text).map_err(|error| unreadable(text, &error))?;
        let this = program(binary);
        for (what, expected, found) in [
            ("format", FORMAT, &plan.format),
            ("version", &VERSION.to_string(), &plan.version.to_string()),
            ("program", &this, &plan.program),
        ] {
            if expected != found {
                return Err(format!("expected {what} `{expected}`, found `{found}`"));
            }
        }
        Ok(plan)
    }

    /// State that the bytes depend on.
    ///
    /// # Errors
    /// A plan of another form.
    pub fn fingerprint(&self, path: &Path) -> Result<Fingerprint, Error> {
        Fingerprint::from_json(&self.fingerprint)
            .ok_or_else(|| Error::at(path, "not a plan file: invalid fingerprint"))
    }

    /// Costs that determine the parts.
    pub fn rates(&self) -> Rates {
        Rates::new(self.picoseconds_per_element.clone())
    }

    /// The folder that relative paths start from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The JSON form of the conversion: its `operation` and `options`.
    pub fn conversion(&self) -> &Value {
        &self.conversion
    }

    /// Fails unless the files equal those of the plan.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_layout(&self, path: &Path, files: &[(PathBuf, &PlannedFile)]) -> Result<(), Error> {
        let failed = |message: String| Err(Error::at(path, message));
        if self.outputs.len() != files.len() {
            return failed(format!(
                "expected {} files as in the plan, found {}",
                self.outputs.len(),
                files.len()
            ));
        }
        for (planned, (path, file)) in self.outputs.iter().zip(files) {
            let now = PlannedOutput::new(path, file);
            let tensors = planned.tensors.iter().zip(&now.tensors);
            if let Some((planned, now)) = tensors.into_iter().find(|(planned, now)| planned != now) {
                let place = |tensor: &PlannedTensor| {
                    format!("{} {:?} at {}", tensor.dtype, tensor.shape, tensor.offset)
                };
                let (was, is) = (place(planned), place(now));
                return failed(format!(
                    "tensor `{}` was {was} when the plan was made and is now {is}",
                    planned.name
                ));
            }
            if planned.tensors.len() != now.tensors.len() || planned.bytes != now.bytes {
                let (was, is) = (planned.bytes, now.bytes);
                return failed(format!(
                    "`{}` had {was} bytes when the plan was made and now has {is}",
                    planned.name
                ));
            }
        }
        Ok(())
    }
}
