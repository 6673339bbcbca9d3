//! Exports the metadata of a GGUF file as JSON, which an edit can read.

use std::path::PathBuf;

use gguf_container::Metadata;
use serde::{Deserialize, Serialize, Serializer};

use crate::{container_file::open_foreign, error::Error, events::Events, metadata_json::to_json};

/// Options of an export of metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExportMetadataOptions {
    /// GGUF file, or the first shard of a split model.
    pub file: PathBuf,
    /// Prefixes of the keys to export. An empty list exports all keys.
    pub prefix: Vec<String>,
}

/// Exported metadata, in the order of the file. Serialized as [`metadata_json`](crate::metadata_json), so that nothing
/// is lost.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ExportedMetadata {
    /// Keys and values.
    pub metadata: Metadata,
}

impl Serialize for ExportedMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        to_json(&self.metadata).serialize(serializer)
    }
}

/// Reads the metadata of a file, or the part of it with some prefixes. [`EditOptions::from`] takes the JSON of the
/// result.
///
/// # Errors
/// A file that cannot be read; prefixes that match no key.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::export_metadata::{ExportMetadataOptions, export_metadata};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ExportMetadataOptions { file: "model.gguf".into(), prefix: vec!["general.".to_owned()] };
/// std::fs::write("general.json", serde_json::to_string(&export_metadata(&options, &())?)?)?;
/// # Ok(())
/// # }
/// ```
///
/// [`EditOptions::from`]: crate::edit::EditOptions::from
pub fn export_metadata(
    options: &ExportMetadataOptions,
    _events: &dyn Events,
) -> Result<ExportedMetadata, Error> {
    let ExportMetadataOptions { file: path, prefix } = options;
    let file = open_foreign(path)?;
    let is_wanted = |key: &str| prefix.is_empty() || prefix.iter().any(|start| key.starts_with(start));
    let metadata: Metadata = file.metadata().iter().filter(|(key, _)| is_wanted(key)).cloned().collect();
    if metadata.is_empty() && !prefix.is_empty() {
        return Err(Error::at(path, "no metadata key has this prefix"));
    }
    Ok(ExportedMetadata { metadata })
}
