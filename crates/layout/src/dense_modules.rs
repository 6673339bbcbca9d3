//! Dense modules that sentence-transformers applies after an encoder. A file may have some.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::layout::Dropped;
use crate::{ArchError, Input};

/// Modules that the file lacks.
#[derive(Debug)]
pub struct Left {
    /// Their folders, with the length of the vectors that each gives if that is known.
    folders: Vec<(String, Option<u64>)>,
}

impl Left {
    /// The modules among the tensors that are left out.
    ///
    /// # Errors
    ///
    /// [`ArchError::DenseModules`] if they were asked for and cannot be written or computed.
    pub fn new(dropped: &[Dropped], are_wanted: bool, input: &Input<'_>) -> Result<Left, ArchError> {
        // A bias of zeros has no effect.
        let is_zero = |name: &str| {
            name.ends_with(".bias") && input.same.as_ref().is_some_and(|values| values.are_zero(name))
        };
        let lost = dropped.iter().filter(|tensor| tensor.name.contains("_Dense.") && !is_zero(&tensor.name));
        let names: Vec<String> = lost.map(|tensor| tensor.name.clone()).collect();
        if are_wanted {
            if !names.is_empty() {
                return Err(ArchError::DenseModules { subject: gguf_types::list_names(&names) });
            }
            if let Some((folder, activation)) = activations(input).into_iter().next() {
                let subject = format!("activation `{activation}` of `{folder}`");
                return Err(ArchError::DenseModules { subject });
            }
        }
        let folders: BTreeSet<&str> = names.iter().filter_map(|name| name.split('.').next()).collect();
        let length = |folder: &str| {
            let name = format!("{folder}.linear.weight");
            let matrix = input.tensors.iter().find(|tensor| tensor.name == name);
            matrix.map(|matrix| matrix.shape.n_rows())
        };
        let folders = folders.into_iter().map(|folder| (folder.to_owned(), length(folder))).collect();
        Ok(Left { folders })
    }

    /// A note about the modules that the file lacks, if it lacks any.
    pub fn note(&self) -> Option<String> {
        let (_, length) = self.folders.last()?;
        let folders: Vec<&str> = self.folders.iter().map(|(folder, _)| folder.as_str()).collect();
        let length = length.map_or_else(String::new, |length| format!(" of {length} values"));
        Some(format!(
            "dense modules are omitted: {}; sentence-transformers returns vectors{length}, but the file \
                returns those of the encoder",
            gguf_types::list_names(&folders)
        ))
    }
}

/// Modules whose activation is not the identity, with its name.
fn activations(input: &Input<'_>) -> Vec<(String, String)> {
    let configs = input.files.iter().filter_map(|(name, bytes)| {
        let folder = name.strip_suffix("/config.json").filter(|folder| folder.ends_with("_Dense"))?;
        let config: Json = serde_json::from_slice(bytes).ok()?;
        let activation = config.get("activation_function")?.as_str()?.to_owned();
        (!activation.ends_with("Identity")).then(|| (folder.to_owned(), activation))
    });
    configs.collect()
}
