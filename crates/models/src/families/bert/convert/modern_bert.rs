//! ModernBERT: an encoder with RoPE and sliding windows.
//!
//! Config keys: those of every text model, the sliding window, the period of layers without one, the
//! activation; pooling, and that and the activation of a classifier.
//!
//! Transforms: gate and up stay one matrix, and so do Q, K and V.
//!
//! Source: `ModernBertModel` in `conversion/bert.py`; for tokens of spaces that of llama.cpp build 11549, which is newer than the
//! pinned one.

use crate::families::bert::convert::bert;
use crate::prelude::*;

pub const MODERN_BERT: Arch = Arch {
    name: "modern-bert",
    classes: &[
        Class::new("ModernBertModel"),
        Class::new("ModernBertForMaskedLM"),
        Class::new("ModernBertForSequenceClassification"),
    ],
    example: "answerdotai/ModernBERT-base",
    configs: &[MODERN_BERT_CONFIG],
    tensors: &[ENDS, LAYERS, CLASSIFIER],
    keys,
    drops: |hparams, name| match name {
        "head.dense.bias" if bert::is_classifier(hparams) => Some(drops::NO_BIAS),
        _ if name.starts_with("decoder.") || name == "head.dense.bias" => {
            Some("part of what the model was trained with")
        }
        _ => None,
    },
    rename: |hparams, name| bert::rename(hparams, name, "model."),
    export_name: |_, class, name| Some(bert::export_name(class, name, "model.")),
    vocab: ROUTE,
    window_pattern: every_from_first(3),
    harmless: &["layer_types"],
    ..bert::BERT
};

/// Byte-level BPE with bos, eos and sep.
const ROUTE: Route = Route::new("modern_bert", |writer| vocab(writer, &STYLE));

/// Added tokens of spaces, which mmBERT's tokenizer never matches in texts, are ordinary ones.
pub const STYLE: BpeStyle = BpeStyle { escapes_spaces: Some("mmbert"), ..BpeStyle::GPT2 };

/// Writes the tokenizer.
pub fn vocab(writer: &mut TokenizerWriter<'_>, style: &BpeStyle) -> Result<(), VocabError> {
    // These flags come first: the file's own, read later, take their places but not their order.
    for key in [token_keys::ADD_BOS, token_keys::ADD_EOS, token_keys::ADD_SEP] {
        writer.set(key, true);
    }
    writer.gpt2(style)
}

pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["embeddings.tok_embeddings"], "token_embd"),
    TensorRule::copy(&["embeddings.norm"], "token_embd_norm"),
    TensorRule::copy(&["final_norm"], "output_norm"),
];

/// The first layer has no norm before its attention.
const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["layers.{bid}.attn_norm"], "blk.{bid}.attn_norm").need(Need::If(|_, bid| bid > 0)),
    TensorRule::copy(&["layers.{bid}.attn.Wqkv"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["layers.{bid}.attn.Wo"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["layers.{bid}.mlp.Wi"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["layers.{bid}.mlp.Wo"], "blk.{bid}.ffn_down"),
    TensorRule::copy(&["layers.{bid}.mlp_norm"], "blk.{bid}.ffn_norm"),
];

const CLASSIFIER: &[TensorRule] = &[
    TensorRule::copy(&["head.dense"], "cls").need(Need::Optional),
    TensorRule::copy(&["head.norm"], "cls.norm").need(Need::Optional),
    TensorRule::copy(&["classifier.out_proj"], "cls.output").need(Need::Optional),
];

/// `ModernBertConfig`.
const MODERN_BERT_CONFIG: ConfigClass = ConfigClass::new("modernbert").adjusted(|map| {
    // Layers 0, 3, 6, ... use full attention, the others `local_attention` tokens.
    let every = adjust::count(map, "global_attn_every_n_layers").unwrap_or(3);
    if every == 0 {
        return Err("`global_attn_every_n_layers` is 0".into());
    }
    adjust::layer_types(map, |layer| !layer.is_multiple_of(every))?;
    // Each kind of layer has its own base under a flat key.
    let (full, sliding) = (("global_rope_theta", 160_000.0), ("local_rope_theta", 10_000.0));
    adjust::nested_rope(map, full, sliding)
});

/// Epsilon of norms.
pub const EPSILON: Departure = Departure {
    subject: "attention.layer_norm_epsilon",
    files: "`modern-bert`",
    reason: "`norm_eps` of the config; llama.cpp does not load a file without the key",
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    bert::keys(hparams, keys)?;
    encoder_keys(hparams, keys)
}

/// The keys that BERT does not have.
pub fn encoder_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // transformers 5 saves `norm_eps`, which the reference writes as the epsilon of another norm only. llama.cpp does not
    // load a file without this key.
    if keys.prefixed("attention.layer_norm_epsilon").is_none() {
        keys.number(EPSILON.subject, hparams, &["norm_eps"])?;
        keys.departs(&EPSILON);
    }
    keys.needed("attention.sliding_window", hparams, &["local_attention"])?;
    // A number here, where other architectures write a list.
    keys.count("attention.sliding_window_pattern", hparams, &["global_attn_every_n_layers"])?;
    keys.unscaled_by_default();
    keys.vocab_size(hparams)?;
    if let Some(activation) = hparams.get("hidden_activation").and_then(Json::as_str) {
        keys.set_prefixed("hidden_activation", activation.into());
    }
    Ok(())
}
