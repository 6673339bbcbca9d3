//! Text parts of Qwen 2 VL, Qwen 2.5 VL and Qwen 2.5 Omni.
//!
//! Config keys: those of every text model, including the sections of the rotated dimensions (time, height,
//! width).
//!
//! Transforms: Omni's tensors have the prefix `thinker.`.
//!
//! Source: `Qwen2VLModel` in `conversion/qwenvl.py`.

use crate::prelude::*;

pub const QWEN2VL: Arch = Arch {
    name: "qwen2vl",
    classes: &[
        Class::new("Qwen2VLForConditionalGeneration"),
        Class::new("Qwen2VLModel"),
        Class::new("Qwen2_5_VLForConditionalGeneration"),
        Class::new("Qwen2_5OmniModel"),
        Class::new("Qwen2_5OmniForConditionalGeneration"),
        Class::new("Qwen2_5OmniThinkerForConditionalGeneration"),
    ],
    example: "Qwen/Qwen2.5-VL-3B-Instruct",
    configs: &[QWEN2_VL_CONFIG, QWEN2_5_VL_CONFIG, QWEN2_5_OMNI_CONFIG, THINKER_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    rename: |_, name| name.contains("thinker.").then(|| name.replace("thinker.", "")),
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    harmless: &["hidden_act=silu"],
    // The loader does not read it; a small one makes no difference.
    built_in: &[BuiltIn::unless("rms_norm_eps", "0", |_, epsilon| {
        epsilon.as_f64().is_none_or(|epsilon| epsilon <= 1e-5)
    })],
    ..DECODER
};

/// `Qwen2VLTextConfig`; that of 2.5 has the same fields.
const TEXT_CONFIG: ConfigClass = ConfigClass::new("qwen2_vl_text").adjusted(|map| {
    adjust::window_if_used(map, Json::Null);
    adjust::default_rope_sections(map);
    Ok(())
});

/// `Qwen2VLConfig`: text and images.
const QWEN2_VL_CONFIG: ConfigClass =
    ConfigClass::new("qwen2_vl").adjusted(|map| adjust::text_config_or_flat(map, &TEXT_CONFIG));

/// `Qwen2_5_VLConfig`.
const QWEN2_5_VL_CONFIG: ConfigClass = ConfigClass::new("qwen2_5_vl").adjusted(QWEN2_VL_CONFIG.adjust);

/// `Qwen2_5OmniConfig`: thinker, talker and token2wav. The thinker has the text part.
const QWEN2_5_OMNI_CONFIG: ConfigClass = ConfigClass::new("qwen2_5_omni").adjusted(|map| {
    match map.get_mut("thinker_config").and_then(Json::as_object_mut) {
        Some(thinker) => adjust::text_config(thinker, &OMNI_TEXT_CONFIG),
        None => Err("no `thinker_config`".into()),
    }
});

/// `Qwen2_5OmniThinkerConfig`.
const THINKER_CONFIG: ConfigClass =
    ConfigClass::new("qwen2_5_omni_thinker").adjusted(|map| adjust::text_config(map, &OMNI_TEXT_CONFIG));

const OMNI_TEXT_CONFIG: ConfigClass = ConfigClass::new("qwen2_5_omni_text").adjusted(TEXT_CONFIG.adjust);
