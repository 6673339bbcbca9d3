//! Every way in which a model cannot be had from the Hub.

use std::{io, path::PathBuf};

/// Failure to get a model from the Hub or its cache. Addresses are shown without the part after `?`, which
/// can be a signature.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum HubError {
    /// A text that names no model.
    #[error("`{text}` is not the name of a Hub model: {reason}")]
    Name { text: String, reason: &'static str },
    /// The cache does not have the model, and the Hub is not to be asked.
    #[error("`{repo}` is not in the local Hugging Face cache `{}`, and {reason}", .cache.display())]
    NotCached {
        /// The model, with its revision.
        repo: String,
        /// The folder that was looked into.
        cache: PathBuf,
        /// Why the Hub is not asked.
        reason: &'static str,
    },
    /// A file of this machine: the user's settings, the cache, or what has arrived.
    #[error("`{}`: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The Hub has no such model, revision or file, or denies access to it.
    #[error("{address}: the server returned status {status}: {reason}")]
    Refused {
        address: String,
        /// The HTTP status: 401, 403, 404 or 410.
        status: u16,
        /// Message of the Hub, or the meaning of the status.
        reason: String,
        /// True if a token was sent.
        has_token: bool,
        /// True if terms must be accepted first.
        is_gated: bool,
    },
    /// An answer that is of no use, after several attempts where another one could have been.
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
        /// Why that place is not asked.
        reason: &'static str,
    },
    /// A file is another one than it was when the model was listed.
    #[error("{address}: changed during the run: expected {property} {expected}, found {found}")]
    Changed {
        address: String,
        /// Changed property: the length or the tag.
        property: &'static str,
        /// As it was listed or first seen.
        expected: String,
        found: String,
    },
    /// A file that was read whole is not the one that the Hub's checksum is of.
    #[error("`{file}`: expected checksum {expected}, found {found}")]
    Checksum {
        file: String,
        expected: String,
        /// Checksum of the received bytes.
        found: String,
    },
    /// The run was cancelled.
    #[error("interrupted")]
    Interrupted,
}

impl HubError {
    /// Suggested remedy.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            HubError::Name { .. } => Some("write hf://OWNER/MODEL or hf://OWNER/MODEL@REVISION"),
            HubError::NotCached { .. } => {
                Some("unset HF_HUB_OFFLINE, or download the model on a machine with network access")
            }
            HubError::Refused { is_gated: true, has_token: true, .. } => {
                Some("accept the terms on the model page, as the owner of the token")
            }
            HubError::Refused { is_gated: true, has_token: false, .. } => {
                Some("accept the terms on the model page, then set HF_TOKEN or log in with `hf auth login`")
            }
            HubError::Refused { status: 401 | 403, has_token: true, .. } => {
                Some("check the access of your token at https://huggingface.co/settings/tokens")
            }
            HubError::Refused { status: 401 | 403, .. } => Some(
                "check the name; for a private or gated model, set HF_TOKEN or log in with `hf auth login`",
            ),
            HubError::Refused { .. } => {
                Some("check the name and the revision; write ./NAME for a local folder")
            }
            HubError::Checksum { .. } => Some("download the file again; do not use the output"),
            HubError::Changed { .. } => Some("run the command again to read the new file from the start"),
            HubError::Certificate { .. } => {
                Some("if a proxy uses its own certificate, set SSL_CERT_FILE to a file that contains it")
            }
            HubError::Answer { .. } => Some("check the network, and HF_ENDPOINT if it is set"),
            _ => None,
        }
    }
}
