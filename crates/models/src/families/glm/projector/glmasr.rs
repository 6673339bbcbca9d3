//! Audio encoder of GLM-ASR: Whisper's encoder, a norm and two matrices.
//!
//! Config keys: those of Whisper's encoder; the number of stacked frames.
//!
//! Transforms: those of Whisper's encoder. The embeddings before and after the audio are rows of one matrix.
//!
//! Source: `GlmASRWhisperEncoderModel` in `conversion/ultravox.py`.

use crate::families::whisper::projector as whisper;
use gguf_layout::projector::prelude::*;

pub const GLMASR: Projector = Projector {
    name: "glmasr",
    classes: &["GlmasrModel"],
    example: "zai-org/GLM-ASR-Nano-2512",
    vision: None,
    audio: Some(AUDIO),
    tensors: &[whisper::CONVOLUTIONS, LAYERS_WITHOUT_POSITIONS, ADAPTER],
    owns: |_, name| name.starts_with("audio_encoder."),
    rename: |_, name| Some(name.replacen("audio_encoder.whisper.", "audio_tower.", 1)),
    prepare: whisper::prepare,
    keys: |towers, keys| {
        whisper::audio_keys(towers, keys, "glma")?;
        let factor = towers.whole.need_u64(&["merge_factor"])?;
        keys.set_derived("audio.projector.stack_factor", "merge_factor", factor)
    },
    ..BASE
};

/// Positions are rotary, but learned positions in the checkpoint are also written. The norm after the layers is
/// `audio_encoder.layer_norm`; the released checkpoint lacks Whisper's final norm.
const LAYERS_WITHOUT_POSITIONS: &[TensorRule] = &{
    let mut rules = whisper::layers(Need::Optional);
    rules[9] = rules[9].need(Need::Optional);
    rules
};

const ADAPTER: &[TensorRule] = &[
    TensorRule::copy(&["audio_encoder.layer_norm"], "mm.a.norm_pre"),
    TensorRule::copy(&["audio_encoder.adapting.0"], "mm.a.mlp.1"),
    TensorRule::copy(&["audio_encoder.adapting.2"], "mm.a.mlp.2"),
    // (2, width): row 0 precedes the audio, row 1 follows it.
    TensorRule::copy(&["audio_encoder.audio_bos_eos_token.weight"], "v.boi")
        .bare("")
        .rows(RowRule::TokenRow(|_| 0)),
    TensorRule::copy(&["audio_encoder.audio_bos_eos_token.weight"], "v.eoi")
        .bare("")
        .rows(RowRule::TokenRow(|_| 1)),
];
