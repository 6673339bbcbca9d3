//! Qwen 2 and 2.5.
//!
//! Config keys: those of every text model; pooling, of models that embed texts. A sliding window is
//! not written.
//!
//! Source: `Qwen2Model` in `conversion/qwen.py`.

use crate::prelude::*;

pub const QWEN2: Arch = Arch {
    name: "qwen2",
    classes: &[
        Class::new("Qwen2ForCausalLM"),
        Class::inner("Qwen2Model", "model."),
        Class::new("KORMoForCausalLM"),
        // Text parts of models with ears or eyes.
        Class::new("Qwen2AudioForConditionalGeneration"),
        Class::new("AudioFlamingo3ForConditionalGeneration"),
        Class::new("DotsOCRForCausalLM"),
    ],
    example: "Qwen/Qwen2.5-7B-Instruct",
    configs: &[QWEN2_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    ..DECODER
};

/// The row of Music Flamingo, whose `head_dim` is that of the audio encoder's rotation.
pub const MUSIC_FLAMINGO: Arch = Arch {
    name: "musicflamingo",
    written: Some("qwen2"),
    classes: &[Class::new("MusicFlamingoForConditionalGeneration")],
    example: "nvidia/music-flamingo-hf",
    configs: &[],
    prepare: |hparams, _| Ok(hparams.without("head_dim")),
    export: Export::NotExportable("exported as `Qwen2ForCausalLM`"),
    ..QWEN2
};

/// `Qwen2Config`.
pub const QWEN2_CONFIG: ConfigClass = ConfigClass::new("qwen2").adjusted(|map| {
    // `Qwen2Config`: `sliding_window if use_sliding_window else None`.
    adjust::window_if_used(map, Json::Null);
    Ok(())
});

/// Keys of every text model, and pooling.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    pooling::keys(hparams, keys)
}
