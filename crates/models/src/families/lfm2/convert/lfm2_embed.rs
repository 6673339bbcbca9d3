//! LFM2 for text embeddings, one per token (ColBERT) or one per text, and for masked tokens; attention may be bidirectional.
//!
//! Config keys: those of LFM2, pooling, and the embedding length if a final matrix changes it.
//!
//! Transforms: those of LFM2. The final matrix is in a separate folder.
//!
//! Source: `LFM2ColBertModel` in `conversion/lfm2.py`; for masked tokens that of llama.cpp build 11549, which is newer than the
//! pinned one.

use crate::families::lfm2::convert::lfm2::{self, LFM2};
use crate::prelude::*;

pub const LFM2_EMBED: Arch = Arch {
    name: "lfm2-embed",
    written: Some("lfm2"),
    classes: &[
        Class::inner("Lfm2Model", "model."),
        Class::inner("Lfm2BidirectionalModel", "model."),
        Class::new("Lfm2BidirectionalForMaskedLM"),
    ],
    example: "LiquidAI/LFM2.5-ColBERT-350M",
    configs: &[],
    tensors: &[DENSE, lfm2::ENDS, lfm2::LAYERS, lfm2::CONVOLUTION, lfm2::ATTENTION],
    keys,
    prepare: |hparams, tensors| {
        let dense = tensors.iter().find(|source| source.name == "1_Dense.linear.weight");
        // The matrix is (out, in): its rows are the length of a vector.
        Ok(dense.map_or(hparams.clone(), |dense| hparams.with(LENGTH, dense.shape.n_rows().into())))
    },
    drops: |_, name| {
        let is_rest = name.contains("_Dense.") && name != "1_Dense.linear.weight";
        is_rest.then_some("llama.cpp supports only one dense layer after the model, without a bias")
    },
    // The prefix of the inner model in the class for masked tokens.
    rename: |_, name| Some(format!("model.{}", name.strip_prefix("lfm2.")?)),
    export: Export::NotExportable("the matrix after the model needs a separate folder"),
    ..LFM2
};

/// Matrix applied to the vectors of the last layer.
const DENSE: &[TensorRule] = &[TensorRule::copy(&["model.1_Dense.linear"], "dense_2").need(Need::Optional)];

/// The name under which the hyperparameters have the length of a vector.
const LENGTH: &str = "embedding_length_out";

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    if let Some(length) = hparams.get(LENGTH) {
        keys.set_early(LENGTH, Value::U32(to_u32(LENGTH, length)?));
    }
    lfm2::keys(hparams, keys)?;
    let class = hparams.get("architectures").and_then(|classes| classes.get(0));
    if class.is_some_and(|class| class.as_str().is_some_and(|name| name.starts_with("Lfm2Bidirectional"))) {
        keys.set_prefixed("attention.causal", Value::Bool(false));
    }
    pooling::keys(hparams, keys)
}
