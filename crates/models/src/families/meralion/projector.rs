//! Tower of MERaLiON 2: Whisper's encoder, a norm and a gated adapter.
//!
//! Config keys: those of Whisper's encoder; how many frames are stacked.
//!
//! Transforms: those of Whisper's encoder.
//!
//! Source: `MERaLiONWhisperEncoderModel` in `conversion/ultravox.py`.

use crate::families::whisper::projector as whisper;
use gguf_layout::projector::prelude::*;

pub const MERALION: Projector = Projector {
    name: "meralion",
    classes: &["MERaLiON2ForConditionalGeneration"],
    example: "MERaLiON/MERaLiON-2-3B",
    vision: None,
    audio: Some(Tower { at: &["speech_config"], ..VISION }),
    tensors: &[whisper::CONVOLUTIONS, whisper::LAYERS, ADAPTER],
    // Encoder, norm and adapter have no common start, so it is all but the text model.
    owns: |_, name| !name.starts_with("text_decoder."),
    // Under the start that the tables of Whisper have.
    rename: |_, name| Some(name.replacen("speech_encoder.", "audio_tower.", 1)),
    prepare: whisper::prepare,
    keys: |towers, keys| {
        whisper::audio_keys(towers, keys, "meralion")?;
        let factor = towers.whole.get_u64("speech_mlp_scale_factor")?.unwrap_or(15);
        keys.set_derived("audio.projector.stack_factor", "speech_mlp_scale_factor", factor)
    },
    ..BASE
};

const ADAPTER: &[TensorRule] = &[
    TensorRule::copy(&["ln_speech"], "mm.a.norm_pre"),
    TensorRule::copy(&["speech_audio_adapter.mlp_adapter.0"], "mm.a.mlp.0"),
    TensorRule::copy(&["speech_audio_adapter.gate_proj"], "mm.a.mlp.1"),
    TensorRule::copy(&["speech_audio_adapter.pool_proj"], "mm.a.mlp.2"),
    TensorRule::copy(&["speech_audio_adapter.out_proj"], "mm.a.mlp.3"),
];
