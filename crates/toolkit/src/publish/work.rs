//! State of a publication: a folder next to the published one, with a line for each finished stage.
//!
//! A stage is valid if it finished with the same fingerprint and its files are unchanged. Fingerprints are
//! digests of everything that the bytes of a stage depend on, including earlier stages, so that any change
//! repeats exactly the affected stages.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use gguf_types::hex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use crate::digest::sha256_of;
use crate::{
    error::Error,
    outputs::{make_folder, write_file},
    path_json,
};

/// The name of the file with the stages.
const STATE: &str = "stages.json";

/// A stage that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Done {
    fingerprint: String,
    outputs: Vec<FileState>,
    /// Data that later stages use.
    #[serde(rename = "told", default, skip_serializing_if = "Value::is_null")]
    facts: Value,
}

impl Done {
    fn is_unchanged(&self) -> bool {
        self.outputs.iter().all(|file| FileState::of(&file.path).as_ref() == Some(file))
    }
}

/// A file as a stage left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    #[serde(with = "path_json::one")]
    path: PathBuf,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u64,
}

impl FileState {
    fn of(path: &Path) -> Option<FileState> {
        let metadata = fs::metadata(path).ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(FileState { path: path.to_owned(), bytes: metadata.len(), modified: modified.as_nanos() as u64 })
    }
}

/// The work folder.
#[derive(Debug)]
pub struct Work {
    folder: PathBuf,
    stages: BTreeMap<String, Done>,
}

impl Work {
    /// Opens the work folder of `published`, creating both if necessary.
    pub fn open(published: &Path) -> Result<Work, Error> {
        for path in [published, &Work::folder_of(published)] {
            make_folder(path)?;
        }
        Ok(Work::read(published))
    }

    /// The state of `published` as it is. Entries that cannot be read are dropped, and their stages run again.
    pub fn read(published: &Path) -> Work {
        let folder = Work::folder_of(published);
        let state = fs::read_to_string(folder.join(STATE)).unwrap_or_default();
        Work { folder, stages: serde_json::from_str(&state).unwrap_or_default() }
    }

    /// `DIR.work` of `DIR`.
    pub fn folder_of(published: &Path) -> PathBuf {
        // `DIR/` and `DIR` are one folder.
        let mut name = published.components().collect::<PathBuf>().into_os_string();
        name.push(".work");
        PathBuf::from(name)
    }

    /// A file that is not published.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Folder of files that are not published.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Data of a stage, if it is valid.
    pub fn standing<T: DeserializeOwned>(&self, stage: &str, fingerprint: &str) -> Option<T> {
        let done = self.stages.get(stage).filter(|done| done.fingerprint == fingerprint)?;
        T::deserialize(done.is_unchanged().then_some(&done.facts)?).ok()
    }

    /// True if a stage is recorded with any fingerprint, and its files are unchanged and where this call finds them.
    pub fn holds(&self, stage: &str) -> bool {
        self.stages.get(stage).is_some_and(Done::is_unchanged)
    }

    /// True if a file is as a stage left it, by its size and time.
    pub fn left(&self, path: &Path) -> bool {
        let Some(state) = FileState::of(path) else { return false };
        self.stages.values().flat_map(|done| &done.outputs).any(|output| *output == state)
    }

    /// Records that a stage is done and keeps the others.
    pub fn done(
        &mut self,
        stage: &str,
        fingerprint: &str,
        outputs: &[PathBuf],
        facts: &impl Serialize,
    ) -> Result<(), Error> {
        let state = |path: &PathBuf| {
            FileState::of(path).ok_or_else(|| Error::at(path, "missing after it was written"))
        };
        let outputs = outputs.iter().map(state).collect::<Result<Vec<_>, Error>>()?;
        let facts = serde_json::to_value(facts).map_err(Error::new)?;
        let done = Done { fingerprint: fingerprint.to_owned(), outputs, facts };
        self.stages.insert(stage.to_owned(), done);
        self.save()
    }

    /// Records a stage like [`Work::done`], and removes its former files in `folder` that it no longer has, for example after the
    /// model was renamed.
    pub fn replaced(
        &mut self,
        stage: &str,
        fingerprint: &str,
        folder: &Path,
        outputs: &[PathBuf],
        facts: &impl Serialize,
    ) -> Result<(), Error> {
        let former = self.stages.get(stage).map_or_else(Vec::new, |done| done.outputs.clone());
        self.done(stage, fingerprint, outputs, facts)?;
        // Paths depend on the folder of the call.
        let names = former.iter().filter_map(|output| output.path.file_name());
        for path in names.map(|name| folder.join(name)).filter(|path| !outputs.contains(path)) {
            // It costs only space.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Removes the record of a stage.
    pub fn forget(&mut self, stage: &str) -> Result<(), Error> {
        self.stages.remove(stage);
        self.save()
    }

    fn save(&self) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(&self.stages).map_err(Error::new)?;
        write_file(&self.path(STATE), text.as_bytes(), true)
    }
}

/// A digest of everything that a stage depends on.
pub fn fingerprint(of: &Value) -> String {
    hex(&Sha256::digest(of.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stage_is_reused_until_something_changes() {
        let place = tempfile::tempdir().unwrap();
        let published = place.path().join("out");
        let file = published.join("x");
        let mut work = Work::open(&published).unwrap();
        fs::write(&file, "one").unwrap();
        let first = fingerprint(&json!({"text": "a"}));
        work.done("base", &first, std::slice::from_ref(&file), &7).unwrap();
        let again = Work::open(&published.join("")).unwrap();
        assert_eq!(again.standing("base", &first), Some(7));
        assert_eq!(again.standing::<u8>("base", &fingerprint(&json!({"text": "b"}))), None);
        assert_eq!(again.standing::<u8>("other", &first), None);
        fs::write(&file, "longer").unwrap();
        assert_eq!(again.standing::<u8>("base", &first), None, "the file changed");
        fs::write(again.path(STATE), "{ damaged").unwrap();
        assert_eq!(Work::open(&published).unwrap().standing::<u8>("base", &first), None);
    }
}
