//! The cache of the Hub's Python library, read as it lies.
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

use super::{Repo, repo::is_commit};

/// A model in the cache, at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The folder with its files.
    pub path: PathBuf,
    /// The commit.
    pub commit: String,
}

/// The snapshot of a model's revision, if the cache has one. Which files it holds is another question: whoever filled the
/// cache may have wanted few.
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

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn a_revision_leads_to_a_snapshot() {
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
}
