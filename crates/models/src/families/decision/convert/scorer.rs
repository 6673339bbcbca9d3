//! The head that Laya and D1-Omni have after their encoders: plain layers with biases, then a score for each option.
//!
//! Layers of the head follow those of the encoder.
//!
//! Source: `D1OmniModel` in `conversion/lfm2.py` and `ModernBertDecisionModel` in `conversion/bert.py` of llama.cpp build
//! 11549, which is newer than the pinned one.

use super::template;
use crate::prelude::*;

/// A type for each kind of question, and the matrices of the scores.
pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["type_emb"], "token_types"),
    TensorRule::copy(&["scorer.0"], "cls.norm"),
    TensorRule::copy(&["scorer.1"], "cls"),
    TensorRule::copy(&["scorer.3"], "cls.output"),
];

/// Layers of the encoder, which the head lacks.
pub const IN_ENCODER: Need = Need::If(|hparams, bid| bid < encoder_layers(hparams));
/// Layers of the head.
pub const IN_HEAD: Need = Need::If(|hparams, bid| bid >= encoder_layers(hparams));

/// More layers than any model has.
const MOST_LAYERS: u64 = 10_000;

fn encoder_layers(hparams: &Hparams) -> u64 {
    hparams.derived.encoder_layers.unwrap_or(0)
}

/// Numbers of layers of the encoder and of the head.
pub struct Layers {
    pub encoder: usize,
    pub head: usize,
}

/// The numbers of layers, with that of the head under `key`.
pub fn layers(hparams: &Hparams, key: &'static str) -> Result<Layers, ArchError> {
    let count = |key: &'static str, found: u64| {
        let count = usize::try_from(found).ok().filter(|_| found <= MOST_LAYERS);
        count.ok_or_else(|| bad(key, &found.into(), "a number of layers up to 10000"))
    };
    Ok(Layers {
        encoder: count("num_hidden_layers", hparams.n_layers()?)?,
        head: count(key, hparams.need_u64(&[key])?)?,
    })
}

/// Adds layers of the head, whose feed-forward part is four times as wide as the model, to those of the encoder.
pub fn prepare(hparams: Hparams, key: &'static str, encoder_length: u64) -> Result<Hparams, ArchError> {
    let Layers { encoder, head } = layers(&hparams, key)?;
    let head_length = hparams.need_u64(&["hidden_size"])?.saturating_mul(4);
    let lengths: Vec<u64> = [vec![encoder_length; encoder], vec![head_length; head]].concat();
    let total = (encoder + head).into();
    let mut hparams = hparams.with("num_hidden_layers", total).with("intermediate_size", lengths.into());
    hparams.derived.encoder_layers = Some(encoder as u64);
    Ok(hparams)
}

/// The name in the table of a tensor of the head: layers by their numbers in the file, joint weights and biases of attention with
/// the usual endings.
pub fn rename(hparams: &Hparams, name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix("head.layers.")?.split_once('.')?;
    let layer = layer.parse::<u64>().ok()?.checked_add(encoder_layers(hparams))?;
    Some(format!("head.layers.{layer}.{}", rest.replace("in_proj_", "in_proj.")))
}

/// Sets temperatures by kinds of questions and numbers of options: `choice:3-5` is written as `choice.3_5`, `choice:11+` as
/// `choice.11`.
pub fn temperatures<'a>(
    keys: &mut Keys,
    values: impl IntoIterator<Item = (&'a str, &'a Json)>,
) -> Result<(), ArchError> {
    for (name, value) in values {
        let written = name.replace(':', ".").replace('-', "_");
        let key = format!("decision.temperature.{}", written.trim_end_matches('+'));
        keys.set_prefixed(&key, Value::F32(to_f32(name, value)?));
    }
    Ok(())
}

/// The number of kinds of questions, and the template of the prompt.
pub fn finish_vocab(writer: &mut TokenizerWriter<'_>, text: &str) {
    writer.set(token_keys::TOKEN_TYPE_COUNT, 3u32);
    template(writer, text);
}
