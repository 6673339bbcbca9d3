//! Common code of the verbs that edit metadata: output and report.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};
use convert::recipes::TensorFacts;
use gguf::{Edit, Metadata, SLACK_KEY, Slack};
use serde_json::{Value as Json, json};

use super::{
    copy_files::gguf_failure,
    metadata_json::{Sides, entry, is_same, short, side_by_side},
    outputs::check_outputs,
    write::output_parser,
};
use crate::{
    commands::{show, verify},
    failure::Failure,
    ui::{Ui, human_bytes, printable},
};

/// Options of the verbs that edit metadata.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// GGUF file, or the first shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Write the result to FILE.
    ///
    /// Without it, the input itself is changed.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_parser())]
    pub output: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Reserve BYTES of free space in the header.
    ///
    /// Later changes that fit are made in place, without rewriting the file. 0 removes the space. By default the space that the
    /// file has is used.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(..=1 << 30))]
    pub header_slack: Option<u64>,
    /// Show what would be written, without writing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print only errors.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Changes the metadata of a file.
///
/// # Errors
/// What `change` says, and what is wrong with the file, the output or the disk.
pub fn edit(
    args: &EditArgs,
    ui: &Ui,
    change: impl FnOnce(&mut Metadata) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let path = args.file.as_path();
    let file = show::open(path)?;
    let failed = |error| gguf_failure(path, error);
    let old = file.metadata().clone();
    let mut new = old.clone();
    change(&mut new)?;
    check_alignment(path, file.alignment(), &new)?;
    let facts = file.tensors().iter();
    let facts: Vec<TensorFacts<'_>> =
        facts.map(|info| TensorFacts { name: &info.name, shape: info.shape, dtype: info.dtype }).collect();
    for text in verify::warnings_of_change(&old, &new, &facts)? {
        ui.warning(&printable(&text));
    }
    drop(facts);
    let slack = args.header_slack.map_or(Slack::Use, Slack::Set);
    let edit = Edit::new(&file, new, slack).map_err(failed)?;
    if let Some(output) = &args.output {
        check_outputs(&[output], &[path], args.force || args.dry_run)?;
    } else if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) {
        // In the Hub's cache a file under a link is named by its content.
        return Err(Failure::at(path, "the file is a link, and its target may be shared")
            .hint(["write to another file with --output, or pass the link's target"]));
    }
    let in_place = args.output.is_none() && edit.is_in_place();
    let report = Report { path, old: &old, edit: &edit, in_place, dry_run: args.dry_run };
    if !args.dry_run {
        file.bytes().check_unchanged().map_err(failed)?;
        // A mapped file must not be written to.
        drop(file);
        match &args.output {
            Some(output) => edit.write_new(path, output, args.force),
            None if edit.changes_nothing() => Ok(()),
            None if in_place => edit.write_in_place(path),
            None => edit.write_new(path, path, true),
        }
        .map_err(failed)?;
    }
    if args.json {
        return ui.data(&format!("{}\n", report.json()));
    }
    for line in report.lines() {
        ui.data(&line)?;
    }
    ui.status(&report.summary(args.output.as_deref()));
    Ok(())
}

/// Fails for a new alignment, by which all tensors would have to move.
fn check_alignment(path: &Path, alignment: u32, new: &Metadata) -> Result<(), Failure> {
    let wanted = match new.get(gguf::ALIGNMENT_KEY) {
        Some(gguf::Value::U32(wanted)) => *wanted,
        Some(_) => return Ok(()),
        None => gguf::DEFAULT_ALIGNMENT,
    };
    if wanted == alignment {
        return Ok(());
    }
    let (file, key) = (path.display(), gguf::ALIGNMENT_KEY);
    Err(Failure::at(
        path,
        format_args!("`{key}` cannot change in place: expected {alignment}, found {wanted}"),
    )
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
    /// Keys with their old and new values; none on one side where there is no such key. Room in the header is no key of a model.
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
        Some(gguf::Value::String(text)) => Some(text.len()),
        _ => None,
    }
}
