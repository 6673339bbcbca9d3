//! Folders of training runs, whose weights are one or two levels further down.
//!
//! ```text
//! output/checkpoint-500/model.safetensors             Trainer of transformers
//! output/global_step100/zero_pp_rank_0_*.pt           DeepSpeed, with output/zero_to_fp32.py
//! output/pytorch_model_fsdp_0/__0_0.distcp            FSDP, by accelerate
//! output/global_step_100/actor/model_world_size_2_rank_0.pt   verl
//! ```

use std::{fs, path::Path};

use crate::{Error, Listing, formats};

/// Maximum depth of the search below a folder without weights.
const MAX_DEPTH: usize = 2;
/// Maximum number of searched subfolders per folder.
const MAX_FOLDERS: usize = 1000;

/// Error for a folder without weights, which names a subfolder with weights if there is one.
pub(crate) fn no_weights(dir: &Path, error: Error) -> Error {
    if !matches!(error, Error::NoWeights { .. }) {
        return error;
    }
    below(dir, "", MAX_DEPTH).unwrap_or(error)
}

fn below(dir: &Path, prefix: &str, depth: usize) -> Option<Error> {
    let folders = folders(dir);
    for name in &folders {
        let folder = format!("{prefix}{name}");
        match formats::detect(&Listing::of(&dir.join(name)).ok()?, false) {
            Ok((format, ..)) if dir.join(name).join("config.json").is_file() || format.class.is_some() => {
                return Some(Error::WeightsBelow { folder });
            }
            Err(Error::Foreign { format, file, advice }) if is_training_state(format) => {
                return Some(Error::Foreign { format, file: format!("{folder}/{file}"), advice });
            }
            Err(Error::NotReadYet { format: "a LoRA adapter", .. }) => {
                return Some(Error::WeightsBelow { folder });
            }
            _ => {}
        }
    }
    let deeper = depth.checked_sub(1)?;
    folders.iter().find_map(|name| below(&dir.join(name), &format!("{prefix}{name}/"), deeper))
}

/// True for a format of [`FOREIGN`](crate::FOREIGN) that training programs write.
fn is_training_state(format: &str) -> bool {
    format.starts_with("the training state")
}

/// Visible subfolders, later steps of a training run first.
fn folders(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .take(MAX_FOLDERS)
        .collect();
    names.sort_by(|a, b| step(b).cmp(&step(a)).then_with(|| a.cmp(b)));
    names
}

/// The number at the end of a name such as `checkpoint-1000`.
fn step(name: &str) -> Option<u64> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name.get(name.len() - digits..)?.parse().ok()
}
