//! The part of LFM2.5 Audio that turns codes of sound into a spectrum: an LFM2 without a vocabulary.
//!
//! Config keys: those of LFM2; the window of the attention, the length of the output.
//!
//! Transforms: those of LFM2. The window of the inverse Fourier transform and the embedding of the codes, which belong to
//! the file of the projector, are left out.
//!
//! Source: `LFM25AudioTokenizer` in `conversion/lfm2.py`.

use super::lfm2;
use crate::prelude::*;

pub const AUDIO_TOKENIZER: Arch = Arch {
    name: "lfm2-audio-tokenizer",
    written: Some("lfm2"),
    classes: &[Class::new("Lfm25AudioTokenizer")],
    example: "LiquidAI/LFM2.5-Audio-1.5B",
    configs: &[],
    tensors: &[ENDS, lfm2::LAYERS, lfm2::CONVOLUTION, lfm2::ATTENTION],
    keys: |hparams, keys| {
        lfm2::keys(hparams, keys)?;
        keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
        keys.needed("embedding_length_out", hparams, &["output_size"])
    },
    drops: |_, name| match name {
        "istft.window" => Some("the window of the inverse transform is computed"),
        name if name.starts_with("emb.emb") => Some("the embedding of the codes belongs to the projector"),
        _ => None,
    },
    rename: |_, name| Some(format!("model.{}", name.strip_prefix("lfm.")?)),
    vocab: Route::NONE,
    export: Export::NotExportable("a part of a checkpoint"),
    ..lfm2::LFM2
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.embedding_norm"], "token_embd_norm"),
    TensorRule::copy(&["lin"], "dense_2"),
];
