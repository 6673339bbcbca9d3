//! Keys of a model before those for its tokenizer.

use serde_json::Value as Json;

use crate::arch::Arch;
use crate::general::{self, FileKind};
use crate::keys::{FinishedKeys, Keys};
use crate::layout::OutTensor;
use crate::tensors::Context;
use crate::text_part::text_config;
use crate::{ArchError, Input, Options, built_in, late_keys, text_keys, yarn};

/// Writes the keys of a row, and those that all rows have.
///
/// # Errors
///
/// [`ArchError`] for a config that the row does not support.
pub fn model_keys(
    arch: &Arch,
    context: &Context<'_>,
    tensors: &[OutTensor],
    input: &Input<'_>,
    options: &Options,
) -> Result<FinishedKeys, ArchError> {
    let hparams = context.hparams;
    let mut keys = Keys::new(arch.written());
    if !options.vocab_only {
        for (key, value) in context.number_keys(input)? {
            keys.set_early_whole(key, value);
        }
    }
    general::keys(input, options, FileKind::Model, tensors, &mut keys)?;
    check_layer_types(arch, &input.config)?;
    (arch.keys)(hparams, &mut keys)?;
    if let Some(pattern) = arch.window_pattern {
        pattern.write(hparams, &mut keys)?;
    }
    // A row with this option has windows in some sizes of the model only.
    if !arch.built_in.iter().any(|entry| entry.option == "sliding_window") {
        let note = built_in::no_layer_slides(&keys);
        keys.notes.extend(note);
    }
    late_keys::write(&options.families, arch.harmless, hparams, &mut keys)?;
    text_keys::note_unstored_scaling(hparams, &mut keys);
    yarn::write_magnitude(hparams, arch.harmless, arch.yarn, &mut keys)?;
    keys.check_numbers()?;
    let differing = built_in::differing(arch.written(), arch.built_in, arch.harmless, hparams);
    keys.warnings.extend(differing.warnings);
    keys.notes.extend(differing.notes);
    Ok(keys.finish())
}

/// Checks `layer_types` of a config whose class in transformers checks it too. Other configs may list more layers.
fn check_layer_types(arch: &Arch, config: &Json) -> Result<(), ArchError> {
    let part = text_config(config).unwrap_or(config);
    let model_type = part.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let class = arch.configs.iter().find(|class| class.model_type == model_type);
    if class.is_some_and(|class| class.field("layer_types").is_some()) {
        built_in::check_layer_types(part)
    } else {
        Ok(())
    }
}
