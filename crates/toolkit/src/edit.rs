//! Edits of the metadata of a GGUF file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Edit, Metadata, SLACK_KEY, Slack};
use gguf_conversion::recipes::TensorFacts;
use serde_json::{Value as Json, json};

use crate::{
    error::Error,
    events::Events,
    metadata_json::{Sides, entry, is_same, short, side_by_side},
    outputs::check_outputs,
    show,
    text::{human_bytes, printable},
    verify::warnings_of_change,
};

/// Options of an edit.
#[derive(Debug, Clone, Default)]
pub struct EditOptions {
    /// GGUF file, or the first shard of a split model.
    pub file: PathBuf,
    /// File to write. Without it, the input itself is changed.
    pub output: Option<PathBuf>,
    /// Overwrite an existing output.
    pub force: bool,
    /// Bytes of free space in the header; `None` uses the space that the file has.
    pub header_slack: Option<u64>,
    /// Write nothing.
    pub dry_run: bool,
}

/// Changes the metadata of a file.
///
/// # Errors
/// Those of `change`; a file that cannot be read, or an output that cannot be written.
pub fn edit(
    options: &EditOptions,
    events: &dyn Events,
    change: impl FnOnce(&mut Metadata) -> Result<(), Error>,
) -> Result<Edited, Error> {
    let path = options.file.as_path();
    let file = show::open(path)?;
    let failed = |error| Error::at(path, error);
    let old = file.metadata().clone();
    let mut new = old.clone();
    change(&mut new)?;
    check_alignment(path, file.alignment(), &new)?;
    let facts = file.tensors().iter();
    let facts: Vec<TensorFacts<'_>> =
        facts.map(|info| TensorFacts { name: &info.name, shape: info.shape, dtype: info.dtype }).collect();
    for text in warnings_of_change(&old, &new, &facts)? {
        events.warning(&printable(&text));
    }
    drop(facts);
    let slack = options.header_slack.map_or(Slack::Use, Slack::Set);
    let edit = Edit::new(&file, new, slack).map_err(failed)?;
    if let Some(output) = &options.output {
        check_outputs(&[output], &[path], options.force || options.dry_run)?;
    } else if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        // In the Hub's cache a file under a link is named by its content.
        return Err(Error::at(path, "the file is a link, and its target may be shared")
            .hint(["write to another file with --output, or pass the link's target"]));
    }
    let in_place = options.output.is_none() && edit.is_in_place();
    let report = Report { path, old: &old, edit: &edit, in_place, dry_run: options.dry_run };
    if !options.dry_run {
        file.bytes().check_unchanged().map_err(failed)?;
        // A mapped file must not be written to.
        drop(file);
        match &options.output {
            Some(output) => edit.write_new(path, output, options.force),
            None if edit.changes_nothing() => Ok(()),
            None if in_place => edit.write_in_place(path),
            None => edit.write_new(path, path, true),
        }
        .map_err(failed)?;
    }
    Ok(Edited {
        lines: report.lines(),
        json: report.json(),
        summary: report.summary(options.output.as_deref()),
    })
}

/// Result of an edit.
#[derive(Debug)]
pub struct Edited {
    /// A line for each changed key, with its end.
    pub lines: Vec<String>,
    /// The same for programs.
    pub json: Json,
    /// The kind of change, in a line.
    pub summary: String,
}

/// Fails for a new alignment, by which all tensors would have to move.
fn check_alignment(path: &Path, alignment: u32, new: &Metadata) -> Result<(), Error> {
    let wanted = match new.get(gguf_container::ALIGNMENT_KEY) {
        Some(gguf_container::Value::U32(wanted)) => *wanted,
        Some(_) => return Ok(()),
        None => gguf_container::DEFAULT_ALIGNMENT,
    };
    if wanted == alignment {
        return Ok(());
    }
    let (file, key) = (path.display(), gguf_container::ALIGNMENT_KEY);
    Err(Error::at(path, format_args!("`{key}` cannot change in place: expected {alignment}, found {wanted}"))
        .hint([format!(
            "to write a file with another alignment, run `gguf-quantize {file} OUT copy --override-kv \
                {key}=int:{wanted}`"
        )]))
}

/// Report of the changes.
struct Report<'a> {
    path: &'a Path,
    old: &'a Metadata,
    edit: &'a Edit,
    in_place: bool,
    dry_run: bool,
}

impl Report<'_> {
    /// Keys with their old and new values; none on one side if the key does not exist. Free space in the header is not listed.
    fn changes(&self) -> Vec<Sides<'_>> {
        let both = side_by_side(self.old, self.edit.metadata());
        both.filter(|(key, old, new)| !is_same(*old, *new) && *key != SLACK_KEY).collect()
    }

    fn lines(&self) -> Vec<String> {
        let line = |(key, old, new): Sides<'_>| {
            let key = printable(key);
            match (old, new) {
                (Some(old), Some(new)) => format!("{key}: {} -> {}\n", short(old), short(new)),
                (None, Some(new)) => format!("{key}: set to {}\n", short(new)),
                (Some(old), None) => format!("{key}: removed, was {}\n", short(old)),
                (None, None) => String::new(),
            }
        };
        self.changes().into_iter().map(line).collect()
    }

    fn json(&self) -> Json {
        let change =
            |(key, old, new): Sides<'_>| json!({"key": key, "old": old.map(entry), "new": new.map(entry)});
        json!({
            "file": self.path.display().to_string(),
            "changes": self.changes().into_iter().map(change).collect::<Vec<_>>(),
            "in_place": self.in_place,
            "written": !(self.dry_run || self.in_place && self.edit.changes_nothing()),
            "slack": slack_of(self.edit.metadata()),
            "file_bytes": self.edit.file_len(),
        })
    }

    fn summary(&self, output: Option<&Path>) -> String {
        let (path, n_bytes) = (output.unwrap_or(self.path).display(), self.edit.file_len());
        let how = match (self.in_place, self.dry_run) {
            (true, _) if self.edit.changes_nothing() => return format!("{path}: no changes"),
            (true, true) => "would be changed in place".to_owned(),
            (true, false) => "changed in place".to_owned(),
            (false, true) => format!("would be rewritten, {}", human_bytes(n_bytes)),
            (false, false) => format!("rewritten, {}", human_bytes(n_bytes)),
        };
        let slack = slack_of(self.edit.metadata());
        let slack = slack.map_or(String::new(), |n| format!("; {n} bytes of free space in the header"));
        format!("{path}: {how}{slack}")
    }
}

/// Bytes of room that a header has.
fn slack_of(metadata: &Metadata) -> Option<usize> {
    match metadata.get(SLACK_KEY) {
        Some(gguf_container::Value::String(text)) => Some(text.len()),
        _ => None,
    }
}
