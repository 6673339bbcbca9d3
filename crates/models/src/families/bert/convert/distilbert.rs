//! DistilBERT, written as `bert`.
//!
//! Config keys: those of every text model under shorter names; the epsilon of norms, which its config lacks,
//! is 1e-12.
//!
//! Transforms: the masked-language head is left out.
//!
//! Source: `DistilBertModel` in `conversion/bert.py`.

use crate::families::bert::convert::bert;
use crate::prelude::*;

pub const DISTILBERT: Arch = Arch {
    name: "distilbert",
    written: Some("bert"),
    classes: &[
        Class::new("DistilBertModel"),
        Class::new("DistilBertForMaskedLM"),
        Class::new("DistilBertForSequenceClassification"),
    ],
    example: "distilbert/distilbert-base-uncased",
    configs: &[ConfigClass::new("distilbert")],
    needs: &["dim", "hidden_dim", "n_layers", "n_heads", "vocab_size"],
    tensors: &[EMBEDDINGS, LAYERS, bert::CLASSIFIER],
    keys: |hparams, keys| {
        // Before the keys of BERT, as the reference does: this key then comes first of all.
        keys.set_prefixed("attention.layer_norm_epsilon", Value::F32(1e-12));
        bert::keys(hparams, keys)
    },
    drops: |hparams, name| {
        let name = bert::rename(hparams, name, "distilbert.").unwrap_or_default();
        // `vocab_transform`, `vocab_layer_norm` and `vocab_projector` guess masked words.
        let is_head = name.starts_with("vocab_");
        bert::drops(&name).or(is_head.then_some("part of what the model was trained with"))
    },
    caveats: |hparams| {
        let caveat = "the head of DistilBERT uses ReLU, but llama.cpp uses tanh for `bert`: scores will \
            differ from transformers";
        if bert::is_classifier(hparams) { vec![caveat.to_owned()] } else { Vec::new() }
    },
    rename: |hparams, name| bert::rename(hparams, name, "distilbert."),
    export_name: |_, class, name| Some(bert::export_name(class, name, "distilbert.")),
    ..bert::BERT
};

const EMBEDDINGS: &[TensorRule] = &[
    TensorRule::copy(&["embeddings.word_embeddings"], "token_embd"),
    TensorRule::copy(&["embeddings.position_embeddings"], "position_embd"),
    TensorRule::copy(&["embeddings.LayerNorm"], "token_embd_norm"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.layer.{bid}.attention.q_lin"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["transformer.layer.{bid}.attention.k_lin"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["transformer.layer.{bid}.attention.v_lin"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["transformer.layer.{bid}.attention.out_lin"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.layer.{bid}.sa_layer_norm"], "blk.{bid}.attn_output_norm"),
    TensorRule::copy(&["transformer.layer.{bid}.ffn.lin1"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer.layer.{bid}.ffn.lin2"], "blk.{bid}.ffn_down"),
    TensorRule::copy(&["transformer.layer.{bid}.output_layer_norm"], "blk.{bid}.layer_output_norm"),
];
