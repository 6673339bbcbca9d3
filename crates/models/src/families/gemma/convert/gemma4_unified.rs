//! Gemma 4 whose images and sounds go into the text part without towers (12B), the text part.
//!
//! Config keys: those of Gemma 4; of generation_config.json the tokens that are never generated.
//!
//! Source: `Gemma4UnifiedModel` in `conversion/gemma.py`.

use crate::families::gemma::convert::gemma4::{self, GEMMA4};
use crate::prelude::*;

pub const GEMMA4_UNIFIED: Arch = Arch {
    name: "gemma4_unified",
    written: Some("gemma4"),
    classes: &[Class::new("Gemma4UnifiedForConditionalGeneration"), Class::new("Gemma4UnifiedForCausalLM")],
    example: "google/gemma-4-12B-it",
    configs: &[CONFIG, TEXT_CONFIG],
    keys: |hparams, keys| {
        gemma4::keys(hparams, keys)?;
        let Some(Json::Array(ids)) = hparams.get("suppress_tokens") else { return Ok(()) };
        let ids = ids.iter().map(|id| to_i32("suppress_tokens", id)).collect::<Result<_, _>>()?;
        keys.set(token_keys::SUPPRESS_TOKENS, Value::Array(Array::I32(ids)));
        Ok(())
    },
    export: Export::NotExportable("its text model is exported as `gemma4`, which is identical"),
    ..GEMMA4
};

/// `Gemma4UnifiedTextConfig`: that of Gemma 4 without experts and embeddings by layer.
const TEXT_CONFIG: ConfigClass =
    ConfigClass::new("gemma4_unified_text").adjusted(gemma4::GEMMA4_TEXT_CONFIG.adjust);

/// `Gemma4UnifiedConfig`.
const CONFIG: ConfigClass =
    ConfigClass::new("gemma4_unified").adjusted(|map| adjust::text_config(map, &TEXT_CONFIG));
