//! EuroBERT and Jina embeddings 5: layers of llama that look both ways.
//!
//! Config keys: those of every text model, no causal mask, pooling.
//!
//! Transforms: queries and keys are not permuted.
//!
//! Source: `EuroBertModel` in `conversion/bert.py`.

use crate::prelude::*;

pub const EUROBERT: Arch = Arch {
    name: "eurobert",
    classes: &[Class::inner("EuroBertModel", "model."), Class::new("JinaEmbeddingsV5Model")],
    example: "EuroBERT/EuroBERT-210m",
    configs: &[ConfigClass::new("eurobert")],
    tensors: &[ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    // Some checkpoints of the inner part have the start of the names all the same.
    rename: |_, name| name.strip_prefix("model.model.").map(|rest| format!("model.{rest}")),
    vocab: ROUTE,
    harmless: &["hidden_act=silu"],
    ..DECODER
};

/// Byte-level BPE without bos.
const ROUTE: Route = Route::new("euro_bert", |writer| {
    writer.set(token_keys::ADD_BOS, false);
    writer.gpt2(&BpeStyle::GPT2)
});

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // An encoder: each token sees those after it, too.
    keys.set_prefixed("attention.causal", Value::Bool(false));
    keys.unscaled_by_default();
    // Classifiers that pool after their last step have no key; the reference refuses their files.
    match hparams.get("classifier_pooling") {
        Some(pools) if pools == "late" => pooling::keys(&hparams.without("classifier_pooling"), keys),
        _ => pooling::keys(hparams, keys),
    }
}
