use std::{io, path::PathBuf};

use gguf_types::{Fields as _, Problem, Words};

/// Failure to get a model from the Hub or its cache. Addresses are shown without the query, which can contain
/// a signature.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum HubError {
    /// The text is not a valid model name.
    #[error("`{text}` is not the name of a Hub model: {reason}")]
    Name { text: String, reason: &'static str },
    /// The cache does not have the model, and the Hub must not be contacted.
    #[error("`{repo}` is not in the local Hugging Face cache `{}`, and {reason}", .cache.display())]
    NotCached {
        repo: String,
        cache: PathBuf,
        /// Reason for not contacting the Hub.
        reason: &'static str,
    },
    /// A local file: the user's settings, the cache, or a download.
    #[error("`{}`: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The Hub has no such model, revision or file, or denies access to it.
    #[error("{address}: the server returned status {status}: {reason}")]
    Refused {
        address: String,
        /// HTTP status: 401, 403, 404 or 410.
        status: u16,
        /// Message of the Hub, or the meaning of the status.
        reason: String,
        /// True if a token was sent.
        has_token: bool,
        /// True if terms must be accepted first.
        is_gated: bool,
    },
    /// An unusable answer, after retries if they might help.
    #[error("{address}: {problem}")]
    Answer { address: String, problem: String },
    /// The server's certificate is not trusted.
    #[error("{address}: the certificate is not trusted: {problem}")]
    Certificate { address: String, problem: String },
    /// A redirect that is not followed.
    #[error("{address}: redirect to `{to}`: {reason}")]
    Redirect {
        address: String,
        to: String,
        /// Reason for not following it.
        reason: &'static str,
    },
    /// A file has changed since the model was listed.
    #[error("{address}: changed during the run: expected {property} {expected}, found {found}")]
    Changed {
        address: String,
        /// Changed property: the length or the tag.
        property: &'static str,
        /// Listed or first seen value.
        expected: String,
        found: String,
    },
    /// A complete file does not match the Hub's checksum.
    #[error("`{file}`: expected checksum {expected}, found {found}")]
    Checksum { file: String, expected: String, found: String },
    #[error("interrupted")]
    Interrupted,
}

impl Problem for HubError {
    fn hint(&self) -> Option<Words> {
        let hint = match self {
            HubError::Name { .. } => "write hf://OWNER/MODEL or hf://OWNER/MODEL@REVISION",
            HubError::NotCached { .. } => {
                "unset HF_HUB_OFFLINE, or download the model on a machine with network access"
            }
            HubError::Refused { is_gated: true, has_token: true, .. } => {
                "accept the terms on the model page, as the owner of the token"
            }
            HubError::Refused { is_gated: true, has_token: false, .. } => {
                "accept the terms on the model page, then set HF_TOKEN or log in with `hf auth login`"
            }
            HubError::Refused { status: 401 | 403, has_token: true, .. } => {
                "check the access of your token at https://huggingface.co/settings/tokens"
            }
            HubError::Refused { status: 401 | 403, .. } => {
                "check the name; for a private or gated model, set HF_TOKEN or log in with `hf auth login`"
            }
            HubError::Refused { .. } => "check the name and the revision; write ./NAME for a local folder",
            HubError::Checksum { .. } => "download the file again; do not use the output",
            HubError::Changed { .. } => "run the command again to read the new file from the start",
            HubError::Certificate { .. } => {
                "if a proxy uses its own certificate, set SSL_CERT_FILE to a file that contains it"
            }
            HubError::Answer { .. } => {
                "check the network, and HF_ENDPOINT if it is set, or pass a folder that you downloaded"
            }
            _ => return self.inner()?.hint(),
        };
        Some(hint.into())
    }
    fn is_interruption(&self) -> bool {
        matches!(self, HubError::Interrupted)
    }
}
