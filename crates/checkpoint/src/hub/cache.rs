//! The cache of the Hub's Python library.
//!
//! ```text
//! models--OWNER--MODEL/refs/main              the commit of a branch or tag, 40 hexadecimal digits
//!                      snapshots/COMMIT/...   the files by name: links into blobs, or copies
//!                      blobs/ETAG             the contents
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use super::{Repo, repo::is_commit};
use crate::{Error, Folder, formats, json, small_files::read_small_file};

/// A model in the cache, at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Folder with its files.
    pub path: PathBuf,
    /// Commit hash.
    pub commit: String,
}

/// Snapshot of a model's revision, if the cache has one. It may lack files if the cache was filled
/// selectively.
pub fn cached(cache: &Path, repo: &Repo) -> Option<Snapshot> {
    let folder = cache.join(repo.cache_folder());
    let revision = repo.revision();
    let commit = match fs::read_to_string(folder.join("refs").join(revision)) {
        Ok(commit) => commit.trim().to_owned(),
        Err(_) => revision.to_owned(),
    };
    // Anything else could be a path that leaves the folder.
    if !is_commit(&commit) {
        return None;
    }
    let path = folder.join("snapshots").join(&commit);
    path.is_dir().then_some(Snapshot { path, commit })
}

impl Snapshot {
    /// First file that a conversion would miss in the snapshot. Weights count if `with_weights`.
    pub fn lacks(&self, with_weights: bool) -> Option<String> {
        let Ok(listing) = Folder::at(&self.path).listing() else { return Some("files".to_owned()) };
        if !listing.has("config.json") && !listing.has("adapter_config.json") {
            return Some("config.json".to_owned());
        }
        if !with_weights {
            return None;
        }
        if matches!(formats::detect(&listing, false), Err(Error::NoWeights { .. })) {
            return Some("weights".to_owned());
        }
        let indexed =
            listing.matching("", ".index.json").into_iter().flat_map(|index| shards(&self.path, &index));
        indexed.into_iter().find(|shard| !listing.has(shard))
    }
}

/// Files named by the readable part of an index.
fn shards(folder: &Path, index: &str) -> Vec<String> {
    let map = read_small_file(folder, index).and_then(|bytes| json::parse(index, &bytes)).ok();
    let map = map.as_ref().and_then(|index| index.get("weight_map")).and_then(Json::as_object);
    map.into_iter().flat_map(|map| map.values()).filter_map(Json::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn revision_selects_snapshot() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("models--a--b");
        let find = |text: &str| cached(cache.path(), &Repo::parse(text).unwrap()).map(|found| found.commit);
        assert_eq!(find("a/b"), None);
        fs::create_dir_all(folder.join("snapshots").join(COMMIT)).unwrap();
        fs::create_dir_all(folder.join("refs/refs/pr")).unwrap();
        assert_eq!(find("a/b"), None, "no branch has a commit");
        fs::write(folder.join("refs/main"), COMMIT).unwrap();
        fs::write(folder.join("refs/refs/pr/1"), format!("{COMMIT}\n")).unwrap();
        fs::write(folder.join("refs/bad"), "../../x").unwrap();
        fs::write(folder.join("refs/gone"), COMMIT.replace('0', "1")).unwrap();
        assert_eq!(find("a/b").as_deref(), Some(COMMIT));
        assert_eq!(find("a/b@refs/pr/1").as_deref(), Some(COMMIT));
        assert_eq!(find(&format!("a/b@{COMMIT}")).as_deref(), Some(COMMIT));
        for none in ["a/b@bad", "a/b@gone", "a/b@other", "a/c"] {
            assert_eq!(find(none), None, "{none}");
        }
    }

    #[test]
    fn incomplete_snapshot_names_missing_file() {
        let folder = tempfile::tempdir().unwrap();
        let snapshot = Snapshot { path: folder.path().to_owned(), commit: COMMIT.to_owned() };
        let lacks = |with_weights| snapshot.lacks(with_weights);
        assert_eq!(lacks(true).as_deref(), Some("config.json"));
        fs::write(folder.path().join("config.json"), "{}").unwrap();
        assert_eq!((lacks(true).as_deref(), lacks(false)), (Some("weights"), None));
        let index = r#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
        fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        fs::write(folder.path().join("model-1.safetensors"), "").unwrap();
        assert_eq!(lacks(true).as_deref(), Some("model-2.safetensors"));
        fs::write(folder.path().join("model-2.safetensors"), "").unwrap();
        assert_eq!(lacks(true), None);
    }
}
