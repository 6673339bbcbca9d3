//! Options of everything that runs a model.

use std::{num::NonZeroUsize, path::PathBuf};

use gguf_runtime::{Activations, Options, generate::Sampling};
use serde::{Deserialize, Serialize};

use super::ChatOptions;
use crate::{adapter::Adapter, error::Error, eval_model};

/// Options for running a model.
///
/// # Examples
/// ```
/// use gguf_toolkit::{Activations, RunOptions};
///
/// let options: RunOptions = serde_json::from_str(r#"{"threads": 4, "activations": "rounded"}"#)?;
/// assert_eq!(options.activations, Activations::Rounded);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOptions {
    /// Number of threads, at most one per core; `None` for one per core.
    pub threads: Option<NonZeroUsize>,
    /// Precision of activations in products with weights.
    pub activations: Activations,
    /// Adapter files (GGUF), which are applied while the model runs. They must belong to the model.
    pub adapters: Vec<Adapter>,
}

impl RunOptions {
    /// The same for the runtime.
    pub(crate) fn of_runtime(&self) -> Options {
        let adapters = self.adapters.iter().map(|adapter| (adapter.path.clone(), adapter.scale as f32));
        Options { adapters: adapters.collect(), ..eval_model::options(self.threads, self.activations) }
    }
}

/// Options of a generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GenerateOptions {
    /// Maximum number of generated tokens.
    pub max_tokens: usize,
    /// Choice of each token. The default is greedy.
    pub sampling: Sampling,
    /// Read the text of special tokens in the prompt as plain text, instead of as these tokens.
    pub plain: bool,
    /// Format the prompt as a message of the user with the chat template.
    pub chat: bool,
    /// Options of the chat template, with `chat`.
    pub template: ChatOptions,
    /// System message, with `chat`.
    pub system: Option<String>,
    /// Projector, for `images` and `audio`.
    pub mmproj: Option<PathBuf>,
    /// PNG or JPEG images. They replace `<__media__>` in the prompt; without this marker, they come before the prompt.
    pub images: Vec<PathBuf>,
    /// WAV, FLAC or MP3 files. They replace `<__media__>` in the prompt; without this marker, they come before the prompt. With
    /// `images`, the markers are `<__image__>` and `<__audio__>`, and images come before sounds.
    pub audio: Vec<PathBuf>,
    /// Maximum number of tokens of each image, for models in which it depends on the image size.
    pub image_tokens: Option<usize>,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            max_tokens: 128,
            sampling: Sampling::default(),
            plain: false,
            chat: false,
            template: ChatOptions::default(),
            system: None,
            mmproj: None,
            images: Vec::new(),
            audio: Vec::new(),
            image_tokens: None,
        }
    }
}

impl GenerateOptions {
    /// Fails unless every option is in its range and has the options that it needs.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage).
    pub fn check(&self) -> Result<(), Error> {
        self.sampling.check().map_err(Error::usage)?;
        if !self.chat && self.system.is_some() {
            return Err(Error::usage("`system`: missing `chat`"));
        }
        if !self.chat && self.template != ChatOptions::default() {
            return Err(Error::usage("`template`: missing `chat`"));
        }
        if self.mmproj.is_none() && !(self.images.is_empty() && self.image_tokens.is_none()) {
            return Err(Error::usage("`images`: missing `mmproj`"));
        }
        if self.mmproj.is_none() && !self.audio.is_empty() {
            return Err(Error::usage("`audio`: missing `mmproj`"));
        }
        Ok(())
    }
}
