//! Every way in which a model cannot be had from the Hub.

use std::{io, path::PathBuf};

/// Why a model cannot be had from the Hub or its cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// A text that names no model.
    #[error("`{text}` does not name a model of the Hub: {why}")]
    Name {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing of the model is in the cache, and nothing may be asked of the Hub.
    #[error("`{repo}` is not in the Hub's cache `{}`, and {why}", .cache.display())]
    NotCached {
        /// The model, with its revision.
        repo: String,
        /// The folder that was looked into.
        cache: PathBuf,
        /// Why the Hub is not asked.
        why: &'static str,
    },
    /// A file of the user's settings that cannot be read.
    #[error("`{}`: {error}", .path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl HubError {
    /// What a person could do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            HubError::Name { .. } => Some("write hf://OWNER/MODEL or hf://OWNER/MODEL@REVISION"),
            HubError::NotCached { .. } => {
                Some("unset HF_HUB_OFFLINE, or download the model where there is a network")
            }
            _ => None,
        }
    }
}
