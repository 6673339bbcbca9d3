//! EuroBERT and Jina embeddings 5: layers of llama that look both ways.
//!
//! Config keys: those of every text model, no causal mask, pooling.
//!
//! Transforms: none; queries and keys are not permuted.
//!
//! Source: `EuroBertModel` in `conversion/bert.py`.

use crate::prelude::*;

/// The row.
pub const EUROBERT: Arch = Arch {
    name: "eurobert",
    classes: &[Class::inner("EuroBertModel", "model."), Class::new("JinaEmbeddingsV5Model")],
    example: "EuroBERT/EuroBERT-210m",
    configs: &[EUROBERT_CONFIG],
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
    keys.set_prefixed("rope.scaling.type", "none".into());
    // Classifiers that pool after their last step have no key; the reference refuses their files.
    match hparams.get("classifier_pooling") {
        Some(pools) if pools == "late" => pooling::keys(&hparams.without("classifier_pooling"), keys),
        _ => pooling::keys(hparams, keys),
    }
}

/// `EuroBertConfig` of transformers 5.23.
const EUROBERT_CONFIG: ConfigClass = ConfigClass {
    model_type: "eurobert",
    fields: &[
        &[
            ("vocab_size", INT, Int(128_256)),
            ("hidden_size", INT, Int(768)),
            ("intermediate_size", INT, Int(3072)),
            ("num_hidden_layers", INT, Int(12)),
            ("num_attention_heads", INT, Int(12)),
            ("num_key_value_heads", INT | NULL, Null),
            ("max_position_embeddings", INT, Int(8192)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("pad_token_id", INT | NULL, Int(128_001)),
            ("bos_token_id", INT | NULL, Int(128_000)),
            ("eos_token_id", INT | NULL | INTS, Int(128_001)),
            ("pretraining_tp", INT, Int(1)),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("mlp_bias", BOOL, Bool(false)),
            ("mask_token_id", INT, Int(128_002)),
            ("classifier_pooling", TEXT, Text("late")),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::HeadDim, Fill::KvHeads],
    heads_divide_hidden: true,
    ..BASE
};
