//! Converts a GGUF file to the other byte order.

use std::path::PathBuf;

use gguf_container::{CopyPlan, Endian};
use serde::{Deserialize, Serialize};

use crate::{
    by_name,
    copy_files::{Copied, Copies, Overwrite, open_model},
    error::Error,
    events::Events,
    writer::shard_paths,
};

/// Options of a change of the byte order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EndianOptions {
    /// GGUF file, or any shard of a split model. All shards are written.
    pub file: PathBuf,
    /// File to write. Shards add their numbers to its name.
    pub output: PathBuf,
    /// Byte order of the output.
    #[serde(with = "by_name::single")]
    pub order: Endian,
    /// Overwrite existing outputs.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
}

impl EndianOptions {
    /// The files, with all offsets fixed.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn plan(&self) -> Result<Copies, Error> {
        let names = |count| shard_paths(&self.output, count);
        let model = open_model(&self.file)?;
        Copies::new(&self.file, model, |model| CopyPlan::in_order(model, self.order), names)
    }
}

/// Writes a file in another byte order, tensor data included.
///
/// # Errors
/// As [`EndianOptions::plan`]; an output that cannot be written; an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{
///     Endian,
///     endian::{EndianOptions, change_endian},
/// };
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = EndianOptions {
///     file: "model.gguf".into(),
///     output: "model-s390x.gguf".into(),
///     order: Endian::Big,
///     ..EndianOptions::default()
/// };
/// change_endian(&options, &())?;
/// # Ok(())
/// # }
/// ```
pub fn change_endian(options: &EndianOptions, events: &dyn Events) -> Result<Copied, Error> {
    options.plan()?.run(Overwrite { force: options.force, dry_run: options.dry_run }, events)
}
