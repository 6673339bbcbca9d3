//! Rows of decision models, and what they share: keys and a named chat template.
//!
//! Source: `DecisionType` in `gguf-py/gguf/constants.py` of llama.cpp build 11549, which is newer than the pinned one.

pub mod clef;
pub mod d1;
pub mod d1_omni;
pub mod laya;
pub mod lev;
pub mod nimble;
pub mod openjev;
pub mod pplx_decider;
pub mod scorer;

use crate::families::qwen::convert::qwen35::QWEN35_TEXT;
use crate::prelude::*;

/// The base model of a decision model on Qwen 3.5, by itself or with a vision tower, without a prediction.
pub const ON_QWEN35: Arch = QWEN35_TEXT;

/// Keys of the base model, and the kind of the decision model.
pub fn keys(hparams: &Hparams, keys: &mut Keys, kind: &'static str) -> Result<(), ArchError> {
    (QWEN35_TEXT.keys)(hparams, keys)?;
    keys.set_prefixed("decision.type", kind.into());
    Ok(())
}

/// A temperature for each kind of question.
pub struct Temperatures {
    pub choice: f32,
    pub score: f32,
    pub noul: f32,
}

impl Temperatures {
    pub fn set(&self, keys: &mut Keys) {
        let Temperatures { choice, score, noul } = *self;
        for (name, value) in [("choice", choice), ("score", score), ("noul", noul)] {
            keys.set_prefixed(&format!("decision.temperature.{name}"), Value::F32(value));
        }
    }
}

/// Byte-level BPE, and the template of the prompt next to the checkpoint's own chat template.
pub fn vocab(writer: &mut TokenizerWriter<'_>, text: &str) -> Result<(), VocabError> {
    writer.gpt2(&BpeStyle::GPT2)?;
    template(writer, text);
    Ok(())
}

/// Adds the template of the prompt.
pub fn template(writer: &mut TokenizerWriter<'_>, text: &str) {
    const NAME: &str = "systemone";
    let text = text.strip_suffix('\n').unwrap_or(text);
    writer.set(&format!("{}.{NAME}", token_keys::CHAT_TEMPLATE), text);
    writer.set(token_keys::CHAT_TEMPLATES, Value::Array(Array::String(vec![NAME.to_owned()].into())));
}
