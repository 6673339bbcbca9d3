//! LoRA adapters: from PEFT's files and the config of a base model to a layout.
//!
//! Source: `convert_lora_to_gguf.py`.

use gguf::{Array, Value};
use serde_json::Value as Json;

use crate::error::bad_in;
use crate::general::{self, FileKind};
use crate::keys::{Keys, to_u32};
use crate::layout::Layout;
use crate::resolve::{Resolved, context};
use crate::tensors::{self, adapt};
use crate::{ArchError, Input, Options};

const FILE: &str = "adapter_config.json";

/// Resolves an adapter. `base` is the base model, with or without its tensors; the config of
/// `adapter` is `adapter_config.json`.
///
/// What the adapter says of its scale beyond `lora_alpha` (`use_rslora`, `alpha_pattern`) has no
/// place in the file; a note says so.
///
/// # Errors
///
/// Those of [`crate::resolve`] for the config of the base model; what [`ArchError`] says of
/// adapters.
pub fn resolve_adapter(
    base: &Input<'_>,
    adapter: &Input<'_>,
    options: &Options,
) -> Result<Layout, ArchError> {
    let config = &adapter.config;
    let kind = config.get("peft_type").filter(|kind| !kind.is_null());
    if let Some(kind) = kind.filter(|kind| kind.as_str() != Some("LORA")) {
        return Err(bad_in(FILE, "peft_type", kind, "LORA"));
    }
    // DoRA scales each column of the sum by a learned length, for which the file has no place.
    if config.get("use_dora") == Some(&Json::Bool(true)) {
        return Err(bad_in(FILE, "use_dora", &true.into(), "no weights beside pairs"));
    }
    // Only the keys and the table of the base model are needed: its weights may not be at hand.
    let model = Resolved::new(base, &Options { vocab_only: true, ..options.clone() })?;
    let width = format!("{}.embedding_length", model.layout.architecture);
    let width = model.layout.metadata.get(&width).and_then(|value| value.as_u64());
    let context = context(model.arch, model.class, &model.hparams, base);
    let base_model = tensors::Base { tensors: &base.tensors, width };
    let (tensors, dropped) = adapt(&context, &base_model, &adapter.tensors)?;

    let mut notes = Vec::new();
    for (key, plain) in
        [("use_rslora", Json::Bool(false)), ("alpha_pattern", Json::Object(Default::default()))]
    {
        if config.get(key).is_some_and(|value| !value.is_null() && *value != plain) {
            notes.push(format!("`{key}` of {FILE} has no place in the file: every pair is scaled by `lora_alpha` / rank, as in the reference"));
        }
    }
    let mut keys = Keys::new(model.layout.architecture);
    // Its name comes from its own folder and card; its config is not one of a model.
    let described = Input {
        config: Json::Null,
        card: adapter.card.clone(),
        folder_name: adapter.folder_name.clone(),
        ..Input::default()
    };
    general::keys(&described, options, FileKind::Lora, &tensors, &mut keys)?;
    // llama.cpp adds alpha / rank * B A to the matrix.
    let alpha = config.get("lora_alpha").filter(|alpha| !alpha.is_null());
    let alpha = alpha.ok_or_else(|| ArchError::MissingKey { file: FILE, key: "lora_alpha".into() })?;
    let number = alpha.as_f64().map(|alpha| alpha as f32).filter(|alpha| alpha.is_finite());
    let number = number.ok_or_else(|| bad_in(FILE, "lora_alpha", alpha, "a number"))?;
    keys.set("adapter.lora.alpha", Value::F32(number));
    invocation(config, &mut keys)?;
    let keys = keys.finish();
    notes.extend(keys.notes);
    Ok(Layout {
        prediction_only: false,
        source_types: false,
        architecture: model.layout.architecture,
        file_type_at: None,
        packed_file_type: None,
        quantization_version_at: keys.metadata.len(),
        metadata: keys.metadata,
        tensors,
        dropped,
        warnings: Vec::new(),
        notes,
        details: Vec::new(),
        unasked: Vec::new(),
    })
}

/// The tokens after which an activated LoRA counts.
fn invocation(config: &Json, keys: &mut Keys) -> Result<(), ArchError> {
    let is_there = |key: &str| {
        config
            .get(key)
            .filter(|value| !value.is_null() && **value != "" && **value != Json::Array(Vec::new()))
    };
    // An activated LoRA counts from the last place in a prompt where these tokens stand.
    match (is_there("alora_invocation_tokens"), is_there("invocation_string")) {
        (Some(Json::Array(tokens)), _) => {
            let ids = tokens
                .iter()
                .map(|token| to_u32("alora_invocation_tokens", token))
                .collect::<Result<_, _>>()?;
            keys.set("adapter.alora.invocation_tokens", Value::Array(Array::U32(ids)));
            Ok(())
        }
        (Some(other), _) => Err(bad_in(FILE, "alora_invocation_tokens", other, "a list of token ids")),
        (None, Some(text)) => {
            Err(bad_in(FILE, "invocation_string", text, "its token ids as `alora_invocation_tokens`"))
        }
        (None, None) => Ok(()),
    }
}
