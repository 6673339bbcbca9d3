//! Files with weights that are not read, next to those of a checkpoint.

use std::{collections::HashSet, path::Path};

use crate::{Listing, Part, Tensor, safetensors, small_files::is_small_file};

const ENDINGS: &[&str] = &[".safetensors", ".bin", ".pt", ".pth"];

/// Prefixes of files with the state of a training run, or with the same weights in another format.
const KNOWN: &[&str] = &[
    "consolidated",
    "diffusion_pytorch_model",
    "flax_model",
    "optimizer",
    "pytorch_model",
    "random_states",
    "rng_state",
    "rust_model",
    "scaler",
    "scheduler",
    "trainer_state",
    "training_args",
    "value_head",
];

#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// A warning for each file with tensors that the checkpoint does not have.
    pub warnings: Vec<String>,
    /// A note on files whose content is unknown.
    pub note: Option<String>,
}

/// Finds the files of a folder that are neither read nor `named` by a note.
pub(crate) fn unread(
    dir: &Path,
    listing: &Listing,
    parts: &[Part],
    tensors: &[Tensor],
    named: &[String],
) -> Unread {
    // A note on shards of an earlier save does not list them.
    let has_other_save = named.iter().any(|note| note.starts_with("weights are read from"));
    let is_known = |name: &str| {
        KNOWN.iter().any(|start| name.starts_with(start))
            || is_small_file(name)
            || has_other_save && name.starts_with("model")
            || parts.iter().any(|part| part.file == name)
            || named.iter().any(|note| note.contains(&format!("`{name}`")))
    };
    let names = listing.names().iter().filter(|name| ENDINGS.iter().any(|ending| name.ends_with(ending)));
    let names: Vec<&String> = names.filter(|name| !is_known(name)).collect();
    if names.is_empty() {
        return Unread::default();
    }
    let read: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let (mut unread, mut others) = (Unread::default(), Vec::new());
    for name in names {
        let found = name.ends_with(".safetensors").then(|| {
            let part = listing.open(dir, name).ok()?;
            safetensors::parse(&part).ok()
        });
        match found.flatten() {
            // A copy of tensors that are read.
            Some(found) if found.iter().all(|tensor| read.contains(tensor.name.as_str())) => {}
            Some(found) => {
                let lost = found.into_iter().filter(|tensor| !read.contains(tensor.name.as_str()));
                let lost: Vec<String> = lost.map(|tensor| tensor.name).collect();
                unread.warnings.push(format!(
                    "`{name}` is not read, so its {} not in the output: {}",
                    if lost.len() == 1 { "tensor is".into() } else { format!("{} tensors are", lost.len()) },
                    gguf_types::list_names(&lost)
                ));
            }
            None => others.push(name.as_str()),
        }
    }
    if !others.is_empty() {
        unread.note =
            Some(format!("not read, though the names suggest weights: {}", gguf_types::list_names(&others)));
    }
    unread
}
