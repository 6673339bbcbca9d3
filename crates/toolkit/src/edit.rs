//! Edits of the metadata of a GGUF file.

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use gguf_container::{Array, Edit, Metadata, SLACK_KEY, Slack, Value};
use gguf_conversion::recipes::TensorFacts;
use gguf_tokenizer::keys::{CHAT_TEMPLATE, CHAT_TEMPLATES, PRE};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::{
    container_file,
    error::Error,
    events::Events,
    metadata_change::change,
    metadata_json::{Sides, entry, entry_or_null, is_same, of_json, short, side_by_side},
    outputs::check_outputs,
    set::{assignment, typed},
    text::{human_bytes, printable},
    text_file,
    verify::{Finding, Severity, findings_of_change},
};
use gguf_types::words;

/// Options of an edit. Changes are applied in the order of the fields, from [`rename`](EditOptions::rename) on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EditOptions {
    /// GGUF file, or the first shard of a split model.
    pub file: PathBuf,
    /// File to write. Without it, the input itself is changed.
    pub output: Option<PathBuf>,
    /// Overwrite an existing output, and write values that make the file invalid.
    pub force: bool,
    /// Bytes of free space in the header; `None` uses the space that the file has.
    pub header_slack: Option<u64>,
    /// Write nothing.
    pub dry_run: bool,
    /// Keys to rename, in order.
    pub rename: Vec<Rename>,
    /// Keys to remove. A name that ends with `*` matches all keys with that prefix.
    pub unset: Vec<String>,
    /// JSON file in the format of [`metadata_json`](crate::metadata_json), whose keys are all set.
    pub from: Option<PathBuf>,
    /// Keys and values to set. A value is `{"type": TYPE, "value": VALUE}`, the format of
    /// [`metadata_json`](crate::metadata_json), or a plain JSON value. A plain value gets the type of the existing key,
    /// the type of the specification, the type that llama.cpp reads, or else `i32`, `f32`, `bool` or `str` by its form.
    pub values: Map<String, Json>,
    /// `KEY=TYPE:VALUE`, as on the command line. Existing and known keys need no type, and `@FILE` stands for the
    /// contents of a file.
    pub assignments: Vec<String>,
    /// File with the chat template.
    pub chat_template: Option<PathBuf>,
}

/// A new name of a key. If both names end with `*`, the prefix of all matching keys is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The present name.
    pub old: String,
    /// The new name.
    pub new: String,
}

/// Reads `OLD=NEW`.
impl FromStr for Rename {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rename, Error> {
        match text.split_once('=').filter(|(old, new)| !old.is_empty() && !new.is_empty()) {
            Some((old, new)) => Ok(Rename { old: old.to_owned(), new: new.to_owned() }),
            None => Err(Error::usage(format_args!("`{text}`: expected OLD=NEW"))),
        }
    }
}

impl EditOptions {
    /// An edit of this file, which changes nothing yet.
    pub fn of(file: impl Into<PathBuf>) -> EditOptions {
        EditOptions { file: file.into(), ..EditOptions::default() }
    }

    /// The same edit that also sets a key.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> EditOptions {
        self.values.insert(key.into(), entry(&value.into()));
        self
    }

    /// Files that are read.
    fn inputs(&self) -> Vec<&Path> {
        let values = self.assignments.iter().filter_map(|text| Some(Path::new(text.split_once("@")?.1)));
        let files = [&self.from, &self.chat_template].into_iter().flatten().map(PathBuf::as_path);
        files.chain(values).chain([self.file.as_path()]).collect()
    }

    fn change(&self, metadata: &mut Metadata) -> Result<(), Error> {
        let at_file = |problem: String| Error::at(&self.file, problem);
        for names in &self.rename {
            rename(metadata, names).map_err(at_file)?;
        }
        for name in &self.unset {
            unset(metadata, name).map_err(at_file)?;
        }
        if let Some(path) = &self.from {
            let text = text_file::options(path)?.into_bytes();
            let json = serde_json::from_slice(&text).map_err(|error| Error::at(path, error))?;
            metadata.extend(of_json(&json).map_err(|problem| Error::at(path, problem))?);
        }
        for (key, json) in &self.values {
            let value = typed(key, json, metadata).map_err(Error::usage)?;
            metadata.set(key, value);
        }
        for text in &self.assignments {
            let (key, value) = assignment(text, metadata)?;
            metadata.set(key, value);
        }
        if let Some(path) = &self.chat_template {
            metadata.set(CHAT_TEMPLATE, Value::String(text_file::options(path)?.into_bytes()));
        }
        Ok(())
    }
}

/// Changes the metadata of a file: in place if the length of the header stays the same, otherwise through a new file
/// that replaces the old one. Tensor data is never changed. Errors that a verification would report about the new
/// values are refused without [`EditOptions::force`], others are warnings.
///
/// # Errors
/// An unknown key, values that make the file invalid, a value that is not of its type, another alignment; a file that cannot be read, or an output that
/// cannot be written.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::edit::{EditOptions, edit};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = EditOptions::of("model.gguf").set("general.name", "My model");
/// let planned = edit(&EditOptions { dry_run: true, ..options.clone() }, &())?;
/// print!("{}", planned.lines().concat());
/// edit(&options, &())?;
/// # Ok(())
/// # }
/// ```
pub fn edit(options: &EditOptions, events: &dyn Events) -> Result<Edited, Error> {
    let path = options.file.as_path();
    let file = container_file::open(path)?;
    let failed = |error| Error::at(path, error);
    let old = file.metadata().clone();
    let mut new = old.clone();
    options.change(&mut new)?;
    warn_of_pre(&old, &new, events);
    check_alignment(path, file.alignment(), &new)?;
    let facts = file.tensors().iter();
    let facts: Vec<TensorFacts<'_>> =
        facts.map(|info| TensorFacts { name: &info.name, shape: info.shape, dtype: info.dtype }).collect();
    let caused = findings_of_change(&old, &new, &facts)?;
    drop(facts);
    let is_error = |finding: &&Finding| finding.severity == Severity::Error;
    // A dry run shows everything.
    if let Some(error) = caused.iter().find(is_error).filter(|_| !options.force && !options.dry_run) {
        let n_more = caused.iter().filter(is_error).count() - 1;
        let more = if n_more > 0 { format!(" ({n_more} more errors)") } else { String::new() };
        return Err(Error::at(
            path,
            format!("the file would be invalid: {}{more}", printable(&error.message)),
        )
        .hint([words!("make changes that belong together in one call, or write it anyway with [-force]")]));
    }
    for finding in &caused {
        events.warning(printable(&finding.message));
    }
    let slack = options.header_slack.map_or(Slack::Use, Slack::Set);
    let edit = Edit::new(&file, new, slack).map_err(failed)?;
    if let Some(output) = &options.output {
        check_outputs(&[output], &options.inputs(), options.force || options.dry_run)?;
    } else if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        // In the Hub's cache a file under a link is named by its content.
        return Err(Error::at(path, "the file is a link, and its target may be shared")
            .hint([words!("write to another file with [-output], or pass the link's target")]));
    }
    let in_place = options.output.is_none() && edit.is_in_place();
    if !options.dry_run {
        file.bytes().check_unchanged().map_err(failed)?;
        // A mapped file must not be written to.
        drop(file);
        match &options.output {
            Some(output) => edit.write_new(path, output, options.force),
            None if edit.changes_nothing() => Ok(()),
            None => edit.replace(path),
        }
        .map_err(failed)?;
    }
    let is_same_file = in_place && edit.changes_nothing();
    Ok(Edited {
        file: path.display().to_string(),
        changes: changes(&old, edit.metadata()),
        in_place,
        written: !(options.dry_run || is_same_file),
        slack: slack_of(edit.metadata()),
        file_bytes: edit.file_len(),
        output: options.output.as_deref().unwrap_or(path).to_owned(),
        is_same_file,
    })
}

/// Result of an edit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Edited {
    /// The file that was read.
    pub file: String,
    /// Keys that change. Free space in the header is not listed.
    pub changes: Vec<EditedKey>,
    /// True if only the header is written, over the old one.
    pub in_place: bool,
    /// False for a dry run, and if nothing changes.
    pub written: bool,
    /// Bytes of free space in the new header, if it has the key for it.
    pub slack: Option<usize>,
    /// Length of the new file in bytes.
    pub file_bytes: u64,
    #[serde(skip)]
    output: PathBuf,
    #[serde(skip)]
    is_same_file: bool,
}

/// A key that changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EditedKey {
    /// The key.
    pub key: String,
    /// Its value before; `None` for a new key.
    #[serde(serialize_with = "entry_or_null")]
    pub old: Option<Value>,
    /// Its value after; `None` for a removed key.
    #[serde(serialize_with = "entry_or_null")]
    pub new: Option<Value>,
}

impl Edited {
    /// A line for each changed key, with its end.
    pub fn lines(&self) -> Vec<String> {
        let line = |EditedKey { key, old, new }: &EditedKey| {
            let key = printable(key);
            match (old, new) {
                (Some(old), Some(new)) => format!("{key}: {}\n", change(old, new)),
                (None, Some(new)) => format!("{key}: set to {}\n", short(new)),
                (Some(old), None) => format!("{key}: removed, was {}\n", short(old)),
                (None, None) => String::new(),
            }
        };
        self.changes.iter().map(line).collect()
    }

    /// The kind of change, in a line.
    pub fn summary(&self) -> String {
        let path = self.output.display();
        let size = human_bytes(self.file_bytes);
        let how = match (self.in_place, self.written) {
            _ if self.is_same_file => return format!("{path}: no changes"),
            (true, false) => "would be changed in place".to_owned(),
            (true, true) => "changed in place".to_owned(),
            (false, false) => format!("would be rewritten, {size}"),
            (false, true) => format!("rewritten, {size}"),
        };
        let slack = self.slack.map_or(String::new(), |n| format!("; {n} bytes of free space in the header"));
        format!("{path}: {how}{slack}")
    }
}

/// Keys with their old and new values; `None` on the side that does not have the key.
fn changes(old: &Metadata, new: &Metadata) -> Vec<EditedKey> {
    let both = side_by_side(old, new);
    let changed = both.filter(|(key, old, new)| !is_same(*old, *new) && *key != SLACK_KEY);
    let owned =
        |(key, old, new): Sides<'_>| EditedKey { key: key.to_owned(), old: old.cloned(), new: new.cloned() };
    changed.map(owned).collect()
}

fn rename(metadata: &mut Metadata, Rename { old, new }: &Rename) -> Result<(), String> {
    let starts = old.strip_suffix('*').zip(new.strip_suffix('*'));
    let renamed = |key: &str| match starts {
        Some((old, new)) => key.strip_prefix(old).map(|rest| format!("{new}{rest}")),
        None => (key == old).then(|| new.to_owned()),
    };
    let (mut made, mut n_renamed) = (Metadata::new(), 0);
    for (key, value) in std::mem::take(metadata) {
        let name = renamed(&key).inspect(|_| n_renamed += 1).unwrap_or(key);
        if made.contains(&name) {
            return Err(format!("duplicate key `{name}`"));
        }
        made.set(name, value);
    }
    *metadata = made;
    match n_renamed {
        0 => Err(format!("unknown key `{old}`")),
        _ => Ok(()),
    }
}

fn unset(metadata: &mut Metadata, name: &str) -> Result<(), String> {
    let n_before = metadata.len();
    let had: Vec<String> = metadata.iter().map(|(key, _)| key.clone()).collect();
    match name.strip_suffix('*') {
        Some(start) => metadata.retain(|key, _| !key.starts_with(start)),
        None => drop(metadata.remove(name)),
    }
    if metadata.len() == n_before {
        return Err(format!("unknown key `{name}`"));
    }
    for key in had {
        if !metadata.contains(&key) {
            forget_template(metadata, &key);
        }
    }
    Ok(())
}

/// Removes the name of a removed template from the list of names.
fn forget_template(metadata: &mut Metadata, key: &str) {
    let Some(name) = key.strip_prefix(CHAT_TEMPLATE).and_then(|rest| rest.strip_prefix('.')) else { return };
    let Some(Value::Array(Array::String(names))) = metadata.get(CHAT_TEMPLATES) else { return };
    let left: Vec<Vec<u8>> =
        names.iter().filter(|other| *other != name.as_bytes()).map(<[u8]>::to_vec).collect();
    if left.is_empty() {
        metadata.remove(CHAT_TEMPLATES);
    } else {
        metadata.set(CHAT_TEMPLATES, Value::Array(Array::String(left.into())));
    }
}

/// Warns of a new pre-tokenizer that llama.cpp does not have.
fn warn_of_pre(old: &Metadata, new: &Metadata, events: &dyn Events) {
    let pre = new.get(PRE).filter(|pre| old.get(PRE) != Some(pre)).and_then(Value::as_str);
    if let Some(pre) = pre.filter(|pre| !gguf_tokenizer::pre_names().any(|known| known == *pre)) {
        events.warning(format!("`{PRE}`: llama.cpp does not support the pre-tokenizer `{pre}`"));
    }
}

/// Fails if the alignment changes, because all tensors would have to move.
fn check_alignment(path: &Path, alignment: u32, new: &Metadata) -> Result<(), Error> {
    let wanted = match new.get(gguf_container::ALIGNMENT_KEY) {
        Some(Value::U32(wanted)) => *wanted,
        Some(_) => return Ok(()),
        None => gguf_container::DEFAULT_ALIGNMENT,
    };
    if wanted == alignment {
        return Ok(());
    }
    let (file, key) = (path.display(), gguf_container::ALIGNMENT_KEY);
    Err(Error::at(path, format_args!("`{key}` cannot change in place: expected {alignment}, found {wanted}"))
        .hint([words!("to write a file with another alignment, run `[gguf-quantize {} OUT copy -override-kv {}=int:{}]`", file, key, wanted)]))
}

/// Bytes of free space in a header, if it has the key for it.
fn slack_of(metadata: &Metadata) -> Option<usize> {
    match metadata.get(SLACK_KEY) {
        Some(Value::String(text)) => Some(text.len()),
        _ => None,
    }
}
