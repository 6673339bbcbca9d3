//! EmbeddingGemma: Gemma 3 with bidirectional attention, for text embeddings.
//!
//! Config keys: those of Gemma 3, with the sliding window as stated in the file, and pooling; sizes of the
//! matrices after it.
//!
//! Transforms: those of Gemma 3. Two matrices after the pooling are written on request.
//!
//! Source: `EmbeddingGemma` in `conversion/gemma.py`.

use crate::families::gemma::convert::gemma3::{self, GEMMA3};
use crate::families::gemma::convert::{gemma, gemma2};
use crate::prelude::*;

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
        for size in SIZES.iter().filter(|_| hparams.derived.dense_modules) {
            keys.count(size, hparams, &[size])?;
        }
        pooling::keys(hparams, keys)
    },
    window_pattern: every(6),
    harmless: &["layer_types"],
    built_in: &[gemma3::HEAD_SCALE],
    tensors: &[
        DENSE,
        gemma::ENDS,
        gemma3::OUTPUT,
        gemma2::NORMS,
        rules::ATTENTION,
        gemma3::QK_NORMS,
        rules::GATED_MLP,
    ],
    drops: |hparams, name| match name.split_once("_Dense.") {
        Some(_) if !hparams.derived.dense_modules => {
            Some("dense layers after the model are omitted unless requested")
        }
        Some((_, rest)) if rest != "linear.weight" => Some("llama.cpp adds no bias to their outputs"),
        _ => None,
    },
    prepare: |hparams, tensors| {
        let mut hparams = hparams;
        for size in SIZES {
            let tensor = if size.starts_with("dense_2") { "2_Dense" } else { "3_Dense" };
            let is_weight = |source: &&SourceTensor| source.name == format!("{tensor}.linear.weight");
            if let Some(source) = tensors.iter().find(is_weight) {
                // (out, in) rows first.
                let n = if size.ends_with("_in") { source.shape.row_elems() } else { source.shape.n_rows() };
                hparams = hparams.with(size, n.into());
            }
        }
        Ok(hparams)
    },
    ..GEMMA3
};

/// Sizes of both matrices: the keys, and the names under which the hyperparameters have them.
const SIZES: [&str; 4] = ["dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"];

const DENSE: &[TensorRule] = &[
    TensorRule::copy(&["model.2_Dense.linear"], "dense_2").need(Need::Optional),
    TensorRule::copy(&["model.3_Dense.linear"], "dense_3").need(Need::Optional),
];
