//! The published folder as the last run left it: its results, and edits made since.

use std::{collections::BTreeSet, fs, path::Path};

use gguf_types::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    names::{CARD, FORMAT, RESULTS, SUMS},
    own_text,
    work::{Work, sha256_of},
};
use crate::error::Error;

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
}

impl Contents {
    /// Compares the files of `out` with their digests.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(out: &Path, results: Option<&Value>, work: &Work) -> Result<Contents, Error> {
        let mut contents = Contents::default();
        let Ok(sums) = fs::read_to_string(out.join(SUMS)) else { return Ok(contents) };
        // The card without the publisher's own text.
        let is_card = |path: &Path| {
            let card = fs::read_to_string(path).unwrap_or_default();
            let digest = hex(&Sha256::digest(own_text::without(&card)));
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
                contents.edited.push(name.to_owned());
            }
        }
        Ok(contents)
    }
}
