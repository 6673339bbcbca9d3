//! Options of everything that runs a model.

use std::num::NonZeroUsize;

use gguf_runtime::{Activations, Options};
use serde::{Deserialize, Serialize};

use crate::eval_model;

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOptions {
    /// Number of threads, at most one per core; `None` for one per core.
    pub threads: Option<NonZeroUsize>,
    /// Precision of activations in products with weights.
    pub activations: Activations,
}

impl RunOptions {
    /// The same for the runtime.
    pub(crate) fn of_runtime(&self) -> Options {
        eval_model::options(self.threads, self.activations)
    }
}
