//! The published folder as the last run left it: its results, and edits made since.

use std::{
    collections::BTreeSet,
    fs, iter,
    path::{Path, PathBuf},
};

use gguf_types::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    front_matter,
    names::{CARD, FORMAT, RESULTS, SUMS, recipe_path},
    options::PublishOptions,
    own_text,
    work::{Work, sha256_of},
};
use crate::{error::Error, text::printable};
use gguf_types::words;

/// Characters of a changed line that a message shows.
const LINE_CHARS: usize = 60;

/// The results of the last run in a folder, if there are any.
pub fn results(out: &Path) -> Option<Value> {
    let results: Value = serde_json::from_slice(&fs::read(out.join(RESULTS)).ok()?).ok()?;
    (results["format"] == FORMAT).then_some(results)
}

/// The types of `results`, one for each file of the table.
pub fn rungs(results: Option<&Value>) -> &[Value] {
    results.and_then(|results| results["rungs"].as_array()).map_or(&[], Vec::as_slice)
}

/// Names of the files of a type. Names that lead out of the folder are dropped, since results can be edited.
pub fn names(rung: &Value) -> Vec<&str> {
    let names = rung["files"].as_array().into_iter().flatten().filter_map(|file| file["name"].as_str());
    names.filter(|name| Path::new(name).file_name().is_some_and(|own| own == *name)).collect()
}

/// Published files, by the digests of the last run.
#[derive(Debug, Default)]
pub struct Contents {
    pub unchanged: BTreeSet<String>,
    pub edited: Vec<String>,
    /// The first edited line of the card outside the publisher's own text, if what was written is known.
    pub changed_line: Option<String>,
}

impl Contents {
    /// Compares the files of `out` with their digests.
    pub fn of(out: &Path, results: Option<&Value>, work: &Work) -> Result<Contents, Error> {
        let mut contents = Contents::default();
        let Ok(sums) = fs::read_to_string(out.join(SUMS)) else { return Ok(contents) };
        // The card without front matter and the publisher's own text.
        let is_card = |path: &Path| {
            let card = fs::read_to_string(path).unwrap_or_default();
            let digest = hex(&Sha256::digest(own_text::without(front_matter::split(&card).1)));
            results.is_some_and(|results| results["card"] == digest)
        };
        for (digest, name) in sums.lines().filter_map(|line| line.split_once("  ")) {
            let path = out.join(name);
            if !path.is_file() {
                continue;
            }
            // A file that is as a stage left it need not be read.
            if work.left(&path) || sha256_of(&path)? == digest || (name == CARD && is_card(&path)) {
                contents.unchanged.insert(name.to_owned());
            } else {
                if name == CARD {
                    contents.changed_line = changed_line(&path, results, work);
                }
                contents.edited.push(name.to_owned());
            }
        }
        Ok(contents)
    }
}

/// Files of the types `labels`, as the last run published them.
pub fn files_of(labels: &[String], results: Option<&Value>, out: &Path) -> Result<Vec<PathBuf>, Error> {
    let rungs = rungs(results);
    let label_of = |rung: &Value| rung["type"].as_str().unwrap_or_default().to_owned();
    let mut files = Vec::new();
    for label in labels {
        let Some(rung) = rungs.iter().find(|rung| label_of(rung).eq_ignore_ascii_case(label)) else {
            let known: Vec<String> = rungs.iter().map(label_of).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("type `{label}` is not published");
            return Err(Error::usage(message).hint([format!("published types: {known}")]));
        };
        files.extend(names(rung).into_iter().map(|name| out.join(name)));
        files.push(recipe_path(&label_of(rung), out));
    }
    Ok(files)
}

/// Refuses a folder with files that no earlier run of this program wrote.
pub fn check_folder(out: &Path, args: &PublishOptions) -> Result<(), Error> {
    if out.exists() && !out.is_dir() {
        return Err(Error::at(out, "is not a folder"));
    }
    // For a folder that will be created, its nearest existing ancestor.
    let there = out.ancestors().find_map(|folder| {
        fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()
    });
    let is_inside = |folder: PathBuf| folder.is_dir() && there.is_some_and(|there| there.starts_with(folder));
    if fs::canonicalize(&args.src).is_ok_and(is_inside) {
        return Err(Error::at(out, "is inside the checkpoint folder, which is never written to")
            .hint(["choose a folder outside the checkpoint"]));
    }
    let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
    let is_ours = Work::folder_of(out).is_dir() || results(out).is_some();
    if is_empty || args.force || is_ours {
        return Ok(());
    }
    let hint = words!("use [-force] to write into it");
    Err(Error::at(out, "the folder is not empty and was not written by an earlier run").hint([hint]))
}

/// Refuses to overwrite what was changed since the last call wrote it.
pub fn check_edits(out: &Path, args: &PublishOptions, contents: &Contents) -> Result<(), Error> {
    let [first, others @ ..] = &contents.edited[..] else { return Ok(()) };
    if args.force {
        return Ok(());
    }
    let others =
        if others.is_empty() { String::new() } else { format!(", and so were {}", others.join(", ")) };
    let line = contents.changed_line.iter().map(|line| format!("; the card differs first at `{line}`"));
    let line: String = line.collect();
    let is_card = |name: &String| name == CARD;
    let own_text = contents.edited.iter().any(is_card).then_some(
        "write your own text in README.md between the comments below the title, and your own keys in its front matter; both are kept",
    );
    let source = (!contents.edited.iter().all(is_card)).then(|| words!("change the source, or pass [-chat-template] or [-model-name], and publish again, so that files, checksums and card agree"));
    let force = match own_text {
        Some(_) => words!("use [-force] to overwrite other changes; your own text and keys are kept"),
        None => words!("use [-force] to overwrite the changes"),
    };
    let message = format!("was changed after it was written{}{line}", printable(&others));
    Err(Error::at(&out.join(first), message).hint(own_text).hint(source).hint([force]))
}

/// The first line of the card at `path` that the last run did not write there.
fn changed_line(path: &Path, results: Option<&Value>, work: &Work) -> Option<String> {
    let written: String = work.standing(CARD, results?["card"].as_str()?)?;
    let card = fs::read_to_string(path).ok()?;
    let card = own_text::without(front_matter::split(&card).1);
    let mut lines = card.lines().zip(written.lines().map(Some).chain(iter::repeat(None)));
    let (line, _) = lines.find(|(line, written)| *written != Some(*line) && !line.trim().is_empty())?;
    Some(printable(&line.chars().take(LINE_CHARS).collect::<String>()))
}
