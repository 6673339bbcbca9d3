//! LoRA adapters: from PEFT's files and the config of a base model to a layout.
//!
//! Source: `convert_lora_to_gguf.py`.

use gguf_container::{Array, Value};
use serde_json::Value as Json;

use crate::error::bad_in;
use crate::general::{self, FileKind};
use crate::keys::{Keys, to_u32};
use crate::layout::Layout;
use crate::resolve::{Resolved, context};
use crate::tensors::{self, Adapted, AdapterScale, adapt};
use crate::{ArchError, Input, Options, departure};

const FILE: &str = "adapter_config.json";

/// Resolves an adapter whose config the caller has checked. `base` is the base model, with or without its tensors; the
/// config of `adapter` is `adapter_config.json`.
///
/// An adapter file has a single alpha. If the pairs need different ones (rsLoRA with several ranks, `alpha_pattern`),
/// B is multiplied by the quotient; the reference ignores both. Pairs of vision and audio towers are left out with a
/// warning, and so are biases of norms, with which llama.cpp refuses an adapter file. It skips weights of norms.
///
/// # Errors
///
/// Those of [`crate::resolve`] for the config of the base model; [`ArchError::NotLora`],
/// [`ArchError::MissingTensors`], [`ArchError::NotInBase`], [`ArchError::TensorShape`], [`ArchError::AdapterTarget`].
pub fn resolve_adapter(
    base: &Input<'_>,
    adapter: &Input<'_>,
    scale: &AdapterScale<'_>,
    options: &Options,
) -> Result<Layout, ArchError> {
    let config = &adapter.config;
    // Only the keys and the table of the base model are needed: its weights may not be at hand.
    let model = Resolved::new(base, &Options { vocab_only: true, ..options.clone() })?;
    let width = format!("{}.embedding_length", model.layout.architecture);
    let width = model.layout.metadata.get(&width).and_then(|value| value.as_u64());
    let context = context(model.arch, model.class, &model.hparams, base);
    let base_model = tensors::Base { tensors: &base.tensors, width };
    let Adapted { tensors, dropped, left_out, norms, left_out_norms, alpha } =
        adapt(&context, &base_model, &adapter.tensors, scale)?;
    let mut warnings = Vec::new();
    let (tied, tensors): (Vec<_>, Vec<_>) = if is_tied(&context, base) {
        tensors.into_iter().partition(|tensor| tensor.name.starts_with("output.weight.lora_"))
    } else {
        (Vec::new(), tensors)
    };
    if let Some(half) = tied.first() {
        let name = half.data.sources().first().cloned().unwrap_or_default();
        let reason = "the base model has tied embeddings, so its file has no output matrix";
        if tensors.is_empty() {
            return Err(ArchError::AdapterTarget { name, reason });
        }
        warnings.push(format!("{reason}: the pair of `{name}` is omitted; merge the adapter to apply it"));
    }
    if !left_out.is_empty() {
        let names = gguf_types::list_names(&left_out);
        warnings.push(format!("an adapter file cannot hold these pairs, which are omitted: {names}"));
    }
    if !left_out_norms.is_empty() {
        let names = gguf_types::list_names(&left_out_norms);
        warnings.push(format!("an adapter file cannot hold these norm tensors, which are omitted: {names}"));
    }
    let mut notes = Vec::new();
    if !norms.is_empty() {
        let names = gguf_types::list_names(&norms);
        notes.push(format!(
            "llama.cpp ignores norms in an adapter file; merge the adapter to apply them: {names}"
        ));
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
    keys.set("adapter.lora.alpha", Value::F32(alpha));
    invocation(config, &mut keys)?;
    let keys = keys.finish();
    notes.extend(keys.notes);
    notes.extend(departure::notes(&keys.departed));
    Ok(Layout {
        architecture: model.layout.architecture,
        metadata: keys.metadata,
        tensors,
        dropped,
        warnings,
        notes,
        departed: keys.departed,
        ..Layout::default()
    })
}

/// True if the file of the base model has no output matrix.
fn is_tied(context: &tensors::Context<'_>, base: &Input<'_>) -> bool {
    let is_output = |name: &str| context.find(name).iter().any(|found| found.rule.gguf == "output");
    if base.tensors.is_empty() {
        context.hparams.is_true("tie_word_embeddings")
    } else {
        !base.tensors.iter().any(|tensor| is_output(&tensor.name))
    }
}

/// The tokens after which an activated LoRA counts.
fn invocation(config: &Json, keys: &mut Keys) -> Result<(), ArchError> {
    let is_set = |key: &str| {
        config
            .get(key)
            .filter(|value| !value.is_null() && **value != "" && **value != Json::Array(Vec::new()))
    };
    // An activated LoRA counts from the last place in a prompt where these tokens stand.
    match (is_set("alora_invocation_tokens"), is_set("invocation_string")) {
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
