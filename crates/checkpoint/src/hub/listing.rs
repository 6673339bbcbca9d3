//! Files of a model on the Hub at one commit.

use std::collections::HashSet;

use serde_json::Value as Json;
use ureq::http::Uri;

use super::{
    HubError, Repo,
    http::{Client, answer_error, escaped, text},
    repo::is_commit,
};

/// Maximum bytes of a page of the listing.
const MAX_PAGE_BYTES: u64 = 64 << 20;
/// Maximum number of pages of a listing; a page has up to a thousand files.
const MAX_PAGES: usize = 100;

#[derive(Debug)]
pub(super) struct Tree {
    pub commit: String,
    pub files: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Path inside the model, which does not leave the folder.
    pub path: String,
    pub n_bytes: u64,
    pub checksum: Checksum,
}

/// Checksum that the Hub states for a file; also the name of its blob in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checksum {
    /// SHA-256 of the bytes: files in large file storage.
    Sha256(String),
    /// SHA-1 of git, which hashes `blob LENGTH` and a zero byte first.
    Git(String),
}

impl Checksum {
    pub fn digits(&self) -> &str {
        match self {
            Checksum::Sha256(digits) | Checksum::Git(digits) => digits,
        }
    }
}

/// Lists a model. Its revision is resolved once, so that all files are of one commit.
pub(super) fn tree_of(client: &Client, repo: &Repo) -> Result<Tree, HubError> {
    let (id, revision) = (escaped(repo.id(), true), repo.revision());
    let uri = client.address(&format!("/api/models/{id}/revision/{}", escaped(revision, false)))?;
    let (_, bytes) = client.get_whole(&uri, MAX_PAGE_BYTES)?;
    let info = parse(&uri, &bytes)?;
    let commit = info.get("sha").and_then(Json::as_str).filter(|sha| is_commit(sha));
    let commit = commit.ok_or_else(|| invalid_answer(&uri, "missing commit"))?.to_owned();

    let mut files = Vec::new();
    let mut next = Some(client.address(&format!("/api/models/{id}/tree/{commit}?recursive=true"))?);
    for _ in 0..MAX_PAGES {
        let Some(uri) = next else {
            return match repeated(&files) {
                Some(path) => Err(invalid_answer(&client.address("")?, &format!("`{path}` is listed twice"))),
                None => Ok(Tree { commit, files }),
            };
        };
        let (headers, bytes) = client.get_whole(&uri, MAX_PAGE_BYTES)?;
        let page = parse(&uri, &bytes)?;
        for entry in page.as_array().ok_or_else(|| invalid_answer(&uri, "expected a list of files"))? {
            files.extend(entry_of(entry).map_err(|problem| invalid_answer(&uri, problem))?);
        }
        next = match text(&headers, "link").and_then(next_page) {
            // The token is sent along, so the address must be the Hub's.
            Some(link) => {
                let link = link.parse().ok().filter(|link| client.is_hub(link));
                Some(link.ok_or_else(|| invalid_answer(&uri, "the next page is on another server"))?)
            }
            None => None,
        };
    }
    Err(invalid_answer(&client.address("")?, "the list of files is too long"))
}

fn invalid_answer(uri: &Uri, problem: &str) -> HubError {
    answer_error(uri, format!("invalid response: {problem}"))
}

fn parse(uri: &Uri, bytes: &[u8]) -> Result<Json, HubError> {
    serde_json::from_slice(bytes).map_err(|error| invalid_answer(uri, &error.to_string()))
}

/// Address in `<address>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (address, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    rest.contains("rel=\"next\"").then_some(address)
}

/// Parses a file of the listing; `None` for a folder.
fn entry_of(entry: &Json) -> Result<Option<Entry>, &'static str> {
    let text = |value: &Json, key: &str| value.get(key).and_then(Json::as_str).map(str::to_owned);
    if text(entry, "type").as_deref() != Some("file") {
        return Ok(None);
    }
    let path = text(entry, "path").filter(|path| is_inside(path)).ok_or("a file has no path")?;
    let is_hex =
        |digits: &String, n: usize| digits.len() == n && digits.bytes().all(|b| b.is_ascii_hexdigit());
    // It becomes a blob's name in the cache, so it must not be a path.
    let checksum = match entry.get("lfs").filter(|lfs| lfs.is_object()) {
        Some(lfs) => text(lfs, "oid").filter(|oid| is_hex(oid, 64)).map(Checksum::Sha256),
        None => text(entry, "oid").filter(|oid| is_hex(oid, 40)).map(Checksum::Git),
    };
    let n_bytes = entry.get("size").and_then(Json::as_u64).ok_or("a file has no size")?;
    Ok(Some(Entry { path, n_bytes, checksum: checksum.ok_or("a file has no checksum")? }))
}

/// First path that is listed twice.
fn repeated(files: &[Entry]) -> Option<&str> {
    let mut seen = HashSet::new();
    files.iter().map(|entry| entry.path.as_str()).find(|path| !seen.insert(*path))
}

/// True if a path stays inside its starting folder.
fn is_inside(path: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.split('/').all(is_part) && !path.chars().any(|c| c.is_control() || c == '\\' || c == ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_entries_are_parsed() {
        let git = "a".repeat(40);
        let sha256 = "B".repeat(64);
        let file = serde_json::json!({"type": "file", "path": "x/y.json", "size": 3, "oid": git});
        let entry = entry_of(&file).unwrap().unwrap();
        assert_eq!(repeated(&[entry.clone(), Entry { path: "z".to_owned(), ..entry.clone() }]), None);
        assert_eq!(repeated(&[entry.clone(), entry.clone()]), Some("x/y.json"));
        assert_eq!(
            (entry.path.as_str(), entry.n_bytes, entry.checksum.digits()),
            ("x/y.json", 3, git.as_str())
        );
        let large =
            serde_json::json!({"type": "file", "path": "y", "size": 3, "oid": git, "lfs": {"oid": sha256}});
        assert_eq!(entry_of(&large).unwrap().unwrap().checksum, Checksum::Sha256(sha256));
        assert!(entry_of(&serde_json::json!({"type": "directory", "path": "x"})).unwrap().is_none());
        for path in ["", "/x", "../x", "a/../b", "a//b", "a\\b", "C:x", "a\u{0}b"] {
            let file = serde_json::json!({"type": "file", "path": path, "size": 3, "oid": git});
            assert!(entry_of(&file).is_err(), "{path:?}");
        }
        let bad = serde_json::json!({"type": "file", "path": "y", "size": 3, "oid": "../../x"});
        assert!(entry_of(&bad).is_err());
    }

    #[test]
    fn next_page_links_are_parsed() {
        assert_eq!(next_page("<https://x/y?cursor=1>; rel=\"next\""), Some("https://x/y?cursor=1"));
        assert_eq!(next_page("<https://x/y>; rel=\"prev\""), None);
        assert_eq!(next_page("x"), None);
    }
}
