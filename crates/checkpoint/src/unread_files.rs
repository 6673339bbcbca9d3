//! Files with weights or values that are not read, next to those of a checkpoint.

use std::{collections::HashSet, path::Path};

use crate::{Listing, Part, Tensor, family_form::Marked, safetensors, small_files::is_small_file};

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

/// Words in names of JSON files with values that a model computes with.
const VALUES: &[&str] =
    &["bias", "calibration", "decision", "head", "readout", "schema", "temperature", "threshold"];

/// First words of names `*_config.json` of files about text generation, training, evaluation and other programs.
const OTHER_CONFIGS: &str = "accelerate data dataset deepspeed ds eval evaluation finetune finetuning genai generation lora merge \
    mergekit mlc neuron openvino ort peft quantization train trainer training";

/// Files and tensors that were read or reported.
pub(crate) struct Found<'a> {
    pub parts: &'a [Part],
    pub tensors: &'a [Tensor],
    /// Notes that name files.
    pub named: &'a [String],
    pub mark: Option<&'static Marked>,
}

impl Found<'_> {
    fn has(&self, name: &str) -> bool {
        is_small_file(name)
            || self.mark.is_some_and(|mark| mark.has(name))
            || self.parts.iter().any(|part| part.file == name)
            || self.named.iter().any(|note| note.contains(&format!("`{name}`")))
    }
}

/// True for a JSON file whose name suggests values that a model computes with.
fn has_values(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".json").filter(|stem| !stem.ends_with(".index")) else {
        return false;
    };
    let words: Vec<&str> = stem.split(['_', '-', '.']).collect();
    let is_config = words.len() > 1 && words.last() == Some(&"config");
    is_config && !OTHER_CONFIGS.split_whitespace().any(|other| words.first() == Some(&other))
        || words.iter().any(|word| VALUES.contains(word))
}

/// Warnings about the files of a folder with weights or values that are neither read nor named by a note.
pub(crate) fn warnings(dir: &Path, listing: &Listing, found: &Found<'_>) -> Vec<String> {
    // A note on shards of an earlier save does not list them.
    let has_other_save = found.named.iter().any(|note| note.starts_with("weights are read from"));
    let is_weights = |name: &str| {
        ENDINGS.iter().any(|ending| name.ends_with(ending))
            && !KNOWN.iter().any(|start| name.starts_with(start))
            && !(has_other_save && name.starts_with("model"))
    };
    let names = listing.names().iter().filter(|name| is_weights(name) || has_values(name));
    let names: Vec<&String> = names.filter(|name| !found.has(name)).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let read: HashSet<&str> = found.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let (mut warnings, mut others) = (Vec::new(), Vec::new());
    for name in names {
        let tensors = name.ends_with(".safetensors").then(|| {
            let part = listing.open(dir, name).ok()?;
            safetensors::parse(&part).ok()
        });
        match tensors.flatten() {
            // A copy of tensors that are read.
            Some(tensors) if tensors.iter().all(|tensor| read.contains(tensor.name.as_str())) => {}
            Some(tensors) => {
                let lost = tensors.into_iter().filter(|tensor| !read.contains(tensor.name.as_str()));
                let lost: Vec<String> = lost.map(|tensor| tensor.name).collect();
                warnings.push(format!(
                    "`{name}` is not read, so its {} not in the output: {}",
                    if lost.len() == 1 { "tensor is".into() } else { format!("{} tensors are", lost.len()) },
                    gguf_types::list_names(&lost)
                ));
            }
            None => others.push(name.as_str()),
        }
    }
    if !others.is_empty() {
        let names = gguf_types::list_names(&others);
        warnings.push(format!("values of files that are not read are not in the output: {names}"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_values_are_known_by_their_names() {
        let with_values =
            ["decision_config.json", "schema_config.json", "calibration.json", "score_bias.json"];
        assert!(with_values.iter().all(|name| has_values(name)));
        let others =
            ["config.json", "generation_config.json", "mlc-chat-config.json", "model.safetensors.index.json"];
        assert!(!others.iter().any(|name| has_values(name)));
    }
}
