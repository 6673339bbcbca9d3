//! Names of models on the Hub.
//!
//! Source of the rules: `validate_repo_id` in `huggingface_hub/utils/_validators.py` and `parse_hf_uri` of
//! `huggingface_hub/utils/_hf_uris.py`, huggingface_hub 1.x.

use std::{fmt, path::Path};

use super::HubError;

/// Prefixes of addresses in this program, other tools and browsers.
const PREFIXES: [&str; 8] = [
    "hf://",
    "https://huggingface.co/",
    "http://huggingface.co/",
    "https://hf.co/",
    "http://hf.co/",
    "huggingface.co/",
    "hf.co/",
    "hf:",
];
/// Names of pages that are followed by a revision.
const PAGES: [&str; 4] = ["tree", "blob", "resolve", "raw"];
/// Maximum length of a name.
const MAX_NAME: usize = 96;
pub(super) const DEFAULT_REVISION: &str = "main";

/// A model on the Hub, at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    id: String,
    revision: Option<String>,
}

impl Repo {
    /// True if `text` can only be a model on the Hub.
    pub fn is_address(text: &str) -> bool {
        PREFIXES.iter().any(|prefix| text.starts_with(prefix))
    }

    /// Parses `hf://OWNER/MODEL[@REVISION]`, the address of the model's page or of a page below it,
    /// `OWNER/MODEL`, or the name of a model without owner.
    ///
    /// # Errors
    /// [`HubError::Name`].
    pub fn parse(text: &str) -> Result<Repo, HubError> {
        Repo::parse_with_file(text).map(|(repo, _)| repo)
    }

    /// Like [`Repo::parse`], with the path of the file if the address is that of its page or its download.
    ///
    /// # Errors
    /// [`HubError::Name`].
    pub fn parse_with_file(text: &str) -> Result<(Repo, Option<String>), HubError> {
        let wrong = |reason| HubError::Name { text: text.to_owned(), reason };
        let rest = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let rest = rest.strip_suffix('/').filter(|rest| rest.contains('/')).unwrap_or(rest);
        let rest = rest.strip_prefix("models/").unwrap_or(rest);
        let parts: Vec<&str> = rest.split('/').collect();
        // The page is the second part for models without owner.
        if let Some(at) = (1..=2).find(|&at| parts.get(at).is_some_and(|part| PAGES.contains(part))) {
            let id = parts[..at].join("/");
            let (revision, file) = match &parts[at + 1..] {
                [] => (None, None),
                rest if parts[at] == "tree" => (Some(rest.join("/")), None),
                [revision, file @ ..] => (Some((*revision).to_owned()), Some(file.join("/"))),
            };
            let revision =
                revision.map_or(String::new(), |revision| format!("@{}", revision.replace("%2F", "/")));
            let (repo, _) = Repo::parse_with_file(&(id + &revision))?;
            return Ok((repo, file.filter(|file| !file.is_empty())));
        }
        let (id, revision) = match rest.split_once('@') {
            Some((id, revision)) => (id, Some(revision)),
            None => (rest, None),
        };
        if ["datasets/", "spaces/", "kernels/", "buckets/"].iter().any(|kind| id.starts_with(kind)) {
            return Err(wrong("it is not a model"));
        }
        if id.split('/').count() > 2 {
            return Err(wrong("a folder inside a model is not supported"));
        }
        if !id.split('/').all(is_name) || id.len() > MAX_NAME {
            return Err(wrong("names have at most 96 letters, digits, `-`, `_` and `.`"));
        }
        if id.contains("--") || id.contains("..") || id.ends_with(".git") {
            return Err(wrong("names cannot contain `--` or `..` or end with `.git`"));
        }
        if revision.is_some_and(|revision| !is_revision(revision)) {
            return Err(wrong("a revision is a branch, a tag or a commit"));
        }
        Ok((Repo { id: id.to_owned(), revision: revision.map(str::to_owned) }, None))
    }

    /// Name of the model whose snapshot or repository in the Hub's cache is at `path`: NAME of
    /// `models--OWNER--NAME/snapshots/COMMIT`.
    pub fn name_in_cache(path: &Path) -> Option<String> {
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let snapshots = path.parent()?;
        let of_cache = if name(snapshots)? == "snapshots" { snapshots.parent()? } else { path };
        Some(name(of_cache)?.strip_prefix("models--")?.rsplit("--").next()?.to_owned())
    }

    /// Sets the revision, unless the name already has one.
    ///
    /// # Errors
    /// [`HubError::Name`].
    pub fn or_revision(self, revision: Option<&str>) -> Result<Repo, HubError> {
        match revision.filter(|_| self.revision.is_none()) {
            Some(revision) => Repo::parse(&format!("{}@{revision}", self.id)),
            None => Ok(self),
        }
    }

    /// `OWNER/MODEL`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Model name without its owner, the usual name of a download folder.
    pub fn name(&self) -> &str {
        self.id.rsplit('/').next().unwrap_or(&self.id)
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(DEFAULT_REVISION)
    }

    /// Folder in the cache: `models--OWNER--MODEL`.
    pub(super) fn cache_folder(&self) -> String {
        format!("models--{}", self.id.replace('/', "--"))
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        match &self.revision {
            Some(revision) => write!(f, "@{revision}"),
            None => Ok(()),
        }
    }
}

/// True for a valid owner or model name.
fn is_name(name: &str) -> bool {
    let ends_plainly = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    ends_plainly(name.chars().next())
        && ends_plainly(name.chars().next_back())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// True for a possible branch, tag or commit. It becomes a path below `refs/` and must not leave that folder.
fn is_revision(revision: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    revision.split('/').all(is_part)
        && !revision.chars().any(|c| c.is_control() || c.is_whitespace() || "\\:?*[~^".contains(c))
}

/// True for a full commit hash.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_of_the_name_wins() {
        let revision = |text: &str, other: Option<&str>| {
            Repo::parse(text).unwrap().or_revision(other).map(|repo| repo.revision().to_owned())
        };
        assert_eq!(revision("a/b", Some("v1")).unwrap(), "v1");
        assert_eq!(revision("a/b@v2", Some("v1")).unwrap(), "v2");
        assert_eq!(revision("a/b", None).unwrap(), "main");
        assert!(revision("a/b", Some("../x")).is_err());
    }

    #[test]
    fn model_names_are_parsed() {
        for (text, id, revision) in [
            ("hf://meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-1B", "main"),
            ("hf://models/a/b", "a/b", "main"),
            ("a/b@v1.0", "a/b", "v1.0"),
            ("hf://a/b@refs/pr/7", "a/b", "refs/pr/7"),
            ("hf://gpt2", "gpt2", "main"),
            ("hf://_a/b_", "_a/b_", "main"),
            ("hf://a/b/", "a/b", "main"),
            ("hf:a/b", "a/b", "main"),
            ("hf.co/a/b", "a/b", "main"),
            ("huggingface.co/a/b@v1", "a/b", "v1"),
            ("https://huggingface.co/gpt2", "gpt2", "main"),
            ("https://huggingface.co/a/b?library=transformers", "a/b", "main"),
            ("https://huggingface.co/a/b/tree/main", "a/b", "main"),
            ("https://huggingface.co/a/b/tree/refs%2Fpr%2F7", "a/b", "refs/pr/7"),
            ("https://huggingface.co/gpt2/tree/main/", "gpt2", "main"),
            ("https://hf.co/a/b/blob/v2/model.safetensors", "a/b", "v2"),
        ] {
            let repo = Repo::parse(text).unwrap();
            assert_eq!((repo.id(), repo.revision()), (id, revision), "{text}");
        }
        let file = |text: &str| Repo::parse_with_file(text).unwrap().1;
        assert_eq!(file("https://hf.co/a/b/resolve/main/x/y.gguf").as_deref(), Some("x/y.gguf"));
        assert_eq!(file("https://hf.co/a/b/tree/main"), None);
        let named = |path: &str| Repo::name_in_cache(Path::new(path));
        assert_eq!(named("hub/models--a--b-c.d/snapshots/0123").as_deref(), Some("b-c.d"));
        assert_eq!(named("hub/models--gpt2").as_deref(), Some("gpt2"));
        assert_eq!(named("snapshots/0123"), None);
        assert_eq!(Repo::parse("a/b.c@x").unwrap().name(), "b.c");
        assert_eq!(Repo::parse("a/b@x").unwrap().to_string(), "a/b@x");
        assert_eq!(Repo::parse("a/b").unwrap().cache_folder(), "models--a--b");
    }

    #[test]
    fn invalid_model_names_are_refused() {
        let long = format!("a/{}", "b".repeat(95));
        for text in [
            "hf://",
            "hf:///b",
            "hf://a/",
            "hf://a/b/c",
            "hf://a/../b",
            "hf://../b",
            "hf://a--c/b",
            "hf://a/b.git",
            "hf://datasets/a/b",
            "hf://a/b@",
            "hf://a/b@../../x",
            "https://huggingface.co/datasets/a/b",
            "https://huggingface.co/a/b/tree/../x",
            "https://huggingface.co/a/b/discussions/1",
            "hf://a/b@/etc",
            "hf://a/b@x y",
            "hf://a/b@x\\y",
            "hf://-a/b",
            "hf://a/b.",
            "hf://a/ü",
            &long,
        ] {
            assert!(matches!(Repo::parse(text), Err(HubError::Name { .. })), "{text}");
        }
    }
}
