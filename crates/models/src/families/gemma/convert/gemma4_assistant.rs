//! Draft models for Gemma 4: a small model that reads the keys and values of the large one.
//!
//! Config keys: those of Gemma 4, the width of the large model, and the MTP layers, which are all.
//!
//! Transforms: the grouped embeddings that speed up the choice of the next token are left out.
//!
//! Source: `Gemma4AssistantModel` in `conversion/gemma.py`.

use crate::families::gemma::convert::gemma4::{self, GEMMA4, GEMMA4_TEXT_CONFIG};
use crate::prelude::*;

pub const GEMMA4_ASSISTANT: Arch = Arch {
    name: "gemma4-assistant",
    classes: &[Class::new("Gemma4AssistantForCausalLM"), Class::new("Gemma4UnifiedAssistantForCausalLM")],
    example: "google/gemma-4-E2B-it-assistant",
    configs: &[GEMMA4_ASSISTANT_CONFIG, GEMMA4_UNIFIED_ASSISTANT_CONFIG],
    tensors: &[rules::DECODER_ENDS, PROJECTIONS, gemma4::NORMS, gemma4::ATTENTION, gemma4::DENSE],
    keys: |hparams, keys| {
        gemma4::keys(hparams, keys)?;
        // The draft's states have the large model's width after `post_projection`.
        keys.needed("embedding_length_out", hparams, &["backbone_hidden_size"])?;
        keys.set_derived("nextn_predict_layers", "num_hidden_layers", hparams.n_layers()?)
    },
    drops: |_, name| name.contains("masked_embedding").then_some("llama.cpp chooses among all tokens"),
    export: Export::NotExportable("a draft model is part of another model"),
    ..GEMMA4
};

/// From the widths of the large model's embedding and state to the own, and from the own to the large model's.
const PROJECTIONS: &[TensorRule] = &[
    TensorRule::copy(&["pre_projection"], "nextn.pre_projection"),
    // (backbone, hidden): back to the width of the large model.
    TensorRule::copy(&["post_projection"], "nextn.post_projection"),
];

/// `Gemma4AssistantConfig`.
const GEMMA4_ASSISTANT_CONFIG: ConfigClass = ConfigClass::new("gemma4_assistant").adjusted(text_config);

/// `Gemma4UnifiedAssistantConfig`.
const GEMMA4_UNIFIED_ASSISTANT_CONFIG: ConfigClass =
    ConfigClass::new("gemma4_unified_assistant").adjusted(GEMMA4_ASSISTANT_CONFIG.adjust);

/// All layers share the keys and values of the large model.
fn text_config(map: &mut Map<String, Json>) -> Result<(), String> {
    let model_type = map.get("text_config").and_then(|text| text.get("model_type")).cloned();
    adjust::text_config(map, &GEMMA4_TEXT_CONFIG)?;
    if let Some(Json::Object(text)) = map.get_mut("text_config") {
        // The checkpoint's name of its text part is kept, whatever the class fills in.
        text.extend(model_type.map(|model_type| ("model_type".to_owned(), model_type)));
        if adjust::count(text, "num_kv_shared_layers").unwrap_or(0) == 0 {
            let n_layers = text.get("num_hidden_layers").cloned().unwrap_or_default();
            text.insert("num_kv_shared_layers".into(), n_layers);
        }
    }
    Ok(())
}
