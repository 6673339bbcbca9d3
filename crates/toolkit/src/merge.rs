//! Merges the shards of a model into one GGUF file.

use std::path::PathBuf;

use gguf_container::CopyPlan;
use serde::{Deserialize, Serialize};

use crate::{
    copy_files::{Copied, Copies, Overwrite, open_model},
    error::Error,
    events::Events,
};

/// Options of a merge of shards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MergeOptions {
    /// One shard of the model, or several. The others are found by their names.
    pub shards: Vec<PathBuf>,
    /// File to write.
    pub output: PathBuf,
    /// Overwrite an existing output.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
}

impl MergeOptions {
    /// The file, with all offsets fixed.
    ///
    /// # Errors
    /// No shards, or shards of several models; a file that cannot be read.
    pub fn plan(&self) -> Result<Copies, Error> {
        let Some((first, more)) = self.shards.split_first() else {
            return Err(Error::usage("missing SHARD"));
        };
        let model = open_model(first)?;
        let shards: Vec<PathBuf> =
            model.shards().iter().filter_map(|(path, _)| path.canonicalize().ok()).collect();
        for path in more {
            let canonical = path.canonicalize().map_err(|error| Error::cannot_open(path, error))?;
            if !shards.contains(&canonical) {
                let problem = format!("not a shard of the same model as {}", first.display());
                return Err(
                    Error::at(path, problem).hint(["pass the shards of one model, then the output file"])
                );
            }
        }
        let plan = |model: &_| CopyPlan::merge(model).map(|plan| vec![plan]);
        Copies::new(first, model, plan, |_| vec![self.output.clone()])
    }
}

/// Merges the shards of a model into one file, without the keys that describe shards. Restores a file that was split
/// byte for byte.
///
/// # Errors
/// As [`MergeOptions::plan`]; an output that cannot be written; an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::merge::{MergeOptions, merge};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let shards = vec!["model-00001-of-00003.gguf".into()];
/// merge(&MergeOptions { shards, output: "model.gguf".into(), ..MergeOptions::default() }, &())?;
/// # Ok(())
/// # }
/// ```
pub fn merge(options: &MergeOptions, events: &dyn Events) -> Result<Copied, Error> {
    options.plan()?.run(Overwrite { force: options.force, dry_run: options.dry_run }, events)
}
