//! Hub settings from the environment, by the rules of the Hub's Python library.
//!
//! Source: `huggingface_hub/constants.py` and `huggingface_hub/utils/_auth.py`, huggingface_hub 1.x.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::HubError;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Addresses of the Hub and its cache, and credentials.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Cache folder, which contains the folders `models--OWNER--MODEL`.
    pub cache: PathBuf,
    /// Address of the Hub, without a trailing slash.
    pub endpoint: String,
    /// True if the Hub must not be contacted.
    pub offline: bool,
    /// Trusted certificates instead of Mozilla's: a PEM file.
    pub certificates: Option<PathBuf>,
    /// Token that is sent to the Hub.
    pub token: Token,
}

/// Source of the token of a Hub account.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Token {
    /// Requests are anonymous.
    #[default]
    None,
    /// The token itself; a secret.
    Value(String),
    /// File that contains the token. It is read when the Hub is contacted and may be missing.
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::None => f.write_str("None"),
            // Never log the token.
            Token::Value(_) => f.write_str("Value(..)"),
            Token::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Token {
    /// The token, read from its file if necessary.
    ///
    /// # Errors
    /// [`HubError::Io`]: the file exists but cannot be read.
    pub fn read(&self) -> Result<Option<String>, HubError> {
        match self {
            Token::None => Ok(None),
            Token::Value(token) => Ok(clean(token)),
            Token::File(path) => token_in(path),
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings { cache, endpoint, offline, certificates, token } = self;
        let mut text = f.debug_struct("Settings");
        text.field("cache", cache).field("endpoint", endpoint).field("offline", offline);
        text.field("certificates", certificates);
        text.field("token", token).finish()
    }
}

impl Settings {
    /// Settings of the public Hub for anonymous requests, with the cache in this folder.
    pub fn new(cache: PathBuf) -> Settings {
        let (endpoint, token) = (DEFAULT_ENDPOINT.to_owned(), Token::None);
        Settings { cache, endpoint, offline: false, certificates: None, token }
    }

    /// Takes the settings from environment variables, which `variable` returns by name. If no variable has
    /// the token, it is in a file, which is not read yet.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Settings {
        // An empty variable counts as unset.
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_true = |name: &str| {
            get(name).is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_uppercase().as_str()))
        };
        let path = |text: String| PathBuf::from(expanded(&text, &get));
        let user_cache = || get("XDG_CACHE_HOME").unwrap_or_else(|| "~/.cache".to_owned());
        let home = path(get("HF_HOME").unwrap_or_else(|| user_cache() + "/huggingface"));
        let cache = get("HF_HUB_CACHE").or_else(|| get("HUGGINGFACE_HUB_CACHE"));
        let token = if is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
            Token::None
        } else {
            match get("HF_TOKEN").or_else(|| get("HUGGING_FACE_HUB_TOKEN")) {
                Some(token) => Token::Value(token),
                None => Token::File(get("HF_TOKEN_PATH").map_or_else(|| home.join("token"), path)),
            }
        };
        // An intercepting proxy has its own certificates, which these variables specify for OpenSSL, requests
        // and curl.
        let certificates =
            ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"].into_iter().find_map(&get);
        let endpoint = get("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        Settings {
            cache: cache.map_or_else(|| home.join("hub"), path),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            certificates: certificates.map(path),
            offline: is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE"),
            token,
        }
    }
}

/// A web address without user, password and query, which can be secret. Other texts are unchanged.
pub fn without_secrets(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://").filter(|(scheme, _)| scheme.starts_with("http"))
    else {
        return address.to_owned();
    };
    let rest = rest.split('?').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// Token from a file; `None` if there is no file.
fn token_in(path: &Path) -> Result<Option<String>, HubError> {
    match fs::read_to_string(path) {
        Ok(token) => Ok(clean(&token)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HubError::Io { path: path.to_owned(), error }),
    }
}

/// A token without line ends; `None` if empty.
fn clean(token: &str) -> Option<String> {
    let token = token.replace(['\r', '\n'], "").trim().to_owned();
    (!token.is_empty()).then_some(token)
}

/// Expands `~` at the front and `$NAME`, `${NAME}` anywhere, like Python's `expandvars(expanduser(text))`;
/// unset variables stay.
fn expanded(text: &str, get: &impl Fn(&str) -> Option<String>) -> String {
    let home = || get("HOME").or_else(|| get("USERPROFILE"));
    let text = match text.strip_prefix('~').zip(home()) {
        Some((rest, home)) if rest.is_empty() || rest.starts_with(['/', '\\']) => home + rest,
        _ => text.to_owned(),
    };
    let mut expanded = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        expanded += before;
        let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, tail) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(pair) => pair,
            None => after.split_at(after.find(|c| !is_inner(c)).unwrap_or(after.len())),
        };
        match get(name) {
            Some(value) => expanded += &value,
            None => expanded += &text[text.len() - after.len() - 1..text.len() - tail.len()],
        }
        rest = tail;
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Settings {
        Settings::from_environment(|name| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn addresses_are_shown_without_secrets() {
        for (address, shown) in [
            ("http://user:pa55@127.0.0.1:9/o/m", "http://127.0.0.1:9/o/m"),
            ("https://hf.co/o/m@v1/x.gguf?token=1", "https://hf.co/o/m@v1/x.gguf"),
            ("https://a:b@c", "https://c"),
            ("hf://gpt2@v1", "hf://gpt2@v1"),
            ("folder/a@b", "folder/a@b"),
        ] {
            assert_eq!(without_secrets(address), shown);
        }
    }

    #[test]
    fn cache_folder_matches_hub_library() {
        for (variables, cache) in [
            (&[("HOME", "/h")][..], "/h/.cache/huggingface/hub"),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("HF_HOME", "~/f")], "/h/f/hub"),
            (&[("HF_HOME", "/f"), ("HUGGINGFACE_HUB_CACHE", "/old")], "/old"),
            (&[("HUGGINGFACE_HUB_CACHE", "/old"), ("HF_HUB_CACHE", "/c")], "/c"),
            (&[("HF_HUB_CACHE", ""), ("HF_HOME", "/f")], "/f/hub"),
            (&[("HF_HUB_CACHE", "$A/${B}/$C/${"), ("A", "a"), ("B", "b")], "a/b/$C/${"),
        ] {
            assert_eq!(settings(variables).cache, Path::new(cache), "{variables:?}");
        }
    }

    #[test]
    fn token_is_read_from_variable_or_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        fs::write(folder.path().join("token"), "of the file\n").unwrap();
        fs::write(folder.path().join("other"), " of another\r\n").unwrap();
        let other = format!("{home}/other");
        for (variables, token) in [
            (&[("HF_HOME", home)][..], Some("of the file")),
            (&[("HF_HOME", home), ("HF_TOKEN_PATH", &other)], Some("of another")),
            (&[("HF_HOME", home), ("HF_TOKEN", "t\n")], Some("t")),
            (&[("HF_HOME", home), ("HF_TOKEN", "t"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")], None),
            (&[("HF_HOME", "/none")], None),
        ] {
            assert_eq!(settings(variables).token.read().unwrap().as_deref(), token, "{variables:?}");
        }
        let shown = format!("{:?}", settings(&[("HF_TOKEN", "secret")]));
        assert!(!shown.contains("secret") && shown.contains("token: Value(..)"), "{shown}");
    }

    #[test]
    fn certificate_variables_match_other_programs() {
        for (variables, file) in [
            (&[("HOME", "/h")][..], None),
            (&[("HOME", "/h"), ("CURL_CA_BUNDLE", "/c"), ("SSL_CERT_FILE", "~/s")], Some("/h/s")),
            (&[("HOME", "/h"), ("CURL_CA_BUNDLE", "/c"), ("SSL_CERT_FILE", "")], Some("/c")),
            (&[("HOME", "/h"), ("REQUESTS_CA_BUNDLE", "/r"), ("CURL_CA_BUNDLE", "/c")], Some("/r")),
        ] {
            assert_eq!(settings(variables).certificates.as_deref(), file.map(Path::new), "{variables:?}");
        }
    }

    #[test]
    fn endpoint_and_offline_mode_are_read() {
        let plain = settings(&[("HF_HOME", "/none")]);
        assert_eq!((plain.endpoint.as_str(), plain.offline), (DEFAULT_ENDPOINT, false));
        let other =
            settings(&[("HF_HOME", "/none"), ("HF_ENDPOINT", "http://x:1/"), ("HF_HUB_OFFLINE", "yes")]);
        assert_eq!((other.endpoint.as_str(), other.offline), ("http://x:1", true));
    }
}
