//! EmbeddingGemma: Gemma 3 that sees in both directions and makes vectors of texts.
//!
//! Config keys: those of Gemma 3, with the window of the file as it stands, and pooling.
//!
//! Transforms: those of Gemma 3.
//!
//! Source: `EmbeddingGemma` in `conversion/gemma.py`.

use crate::models::gemma3::{self, GEMMA3};
use crate::models::prelude::*;

/// The row.
pub const GEMMA_EMBEDDING: Arch = Arch {
    name: "gemma-embedding",
    classes: &[Class::inner("Gemma3TextModel", "model.")],
    example: "google/embeddinggemma-300m",
    // `Gemma3TextConfig`, which stands with Gemma 3.
    configs: &[],
    keys: |hparams, keys| {
        // transformers halves the window of models that look both ways; the file has it as it is stated, and so has what
        // is made of the config here.
        gemma3::keys(hparams, keys)?;
        pooling::keys(hparams, keys)
    },
    harmless: &["layer_types"],
    ..GEMMA3
};
