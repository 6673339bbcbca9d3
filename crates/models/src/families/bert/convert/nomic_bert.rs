//! Nomic embeddings 1 and 1.5.
//!
//! Config keys: those of every text model. Checkpoints on the Hub spell them as GPT-2 does; where
//! they say something, it counts, while the reference takes the defaults of transformers 5's class,
//! which are those of these two models.
//!
//! Source: `NomicBertModel` in `conversion/bert.py`.

use crate::families::bert::convert::bert;
use crate::prelude::*;

pub const NOMIC_BERT: Arch = Arch {
    name: "nomic-bert",
    classes: &[Class::new("NomicBertModel")],
    example: "nomic-ai/nomic-embed-text-v1.5",
    configs: &[NOMIC_BERT_CONFIG],
    needs: &["vocab_size"],
    tensors: &[EMBEDDINGS, LAYERS, FORWARD],
    keys: |hparams, keys| keys_of(hparams, keys, false),
    vocab: ROUTE,
    ..bert::BERT
};

/// WordPiece, or unigram (the mixture of experts), as tokenizer.json says.
const ROUTE: Route = Route::new("nomic_bert", |writer| {
    /// Id of the mask token in XLM-RoBERTa's vocabulary: after its 250,000 pieces, moved by one.
    const MASK: usize = 250_001;
    let hf = writer.tokenizer_json()?;
    match hf.kind() {
        Some("Unigram") => writer.fairseq_unigram(Some(MASK)),
        _ => writer.wordpiece_of(&hf),
    }
});

/// Embeddings of tokens and of their types.
pub const EMBEDDINGS: &[TensorRule] = &[
    TensorRule::copy(&["embeddings.word_embeddings"], "token_embd"),
    TensorRule::copy(&["embeddings.token_type_embeddings"], "token_types"),
    TensorRule::copy(&["emb_ln"], "token_embd_norm"),
];

/// Layer tensors of both versions.
pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["encoder.layers.{bid}.attn.Wqkv"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["encoder.layers.{bid}.attn.out_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["encoder.layers.{bid}.norm1"], "blk.{bid}.attn_output_norm"),
    TensorRule::copy(&["encoder.layers.{bid}.norm2"], "blk.{bid}.layer_output_norm"),
];

const FORWARD: &[TensorRule] = &[
    TensorRule::copy(&["encoder.layers.{bid}.mlp.fc11"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["encoder.layers.{bid}.mlp.fc12"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["encoder.layers.{bid}.mlp.fc2"], "blk.{bid}.ffn_down"),
];

/// `NomicBertConfig`.
const NOMIC_BERT_CONFIG: ConfigClass = ConfigClass::new("nomic_bert").adjusted(|map| {
    hub_spelling(map);
    Ok(())
});

/// Values in the Hub's spelling, which override defaults.
fn hub_spelling(map: &mut Map<String, Json>) {
    // `NomicBertConfig` of transformers 5 has its own defaults; a file of the Hub would lose its
    // numbers to them.
    for (from, to) in [
        ("n_embd", "hidden_size"),
        ("n_layer", "num_hidden_layers"),
        ("n_head", "num_attention_heads"),
        ("n_inner", "intermediate_size"),
    ] {
        if let Some(value) = map.get(from).filter(|value| !value.is_null()).cloned() {
            map.insert(to.into(), value);
        }
    }
}

/// Checks values that identify the model.
pub fn keys_of(hparams: &Hparams, keys: &mut Keys, has_experts: bool) -> Result<(), ArchError> {
    // The second version has biases if the first has gates.
    let biases = if has_experts { "true" } else { "false" };
    let expected = [
        ("activation_function", if has_experts { "\"gelu\"" } else { "\"swiglu\"" }),
        ("causal", "false"),
        ("qkv_proj_bias", biases),
        ("mlp_fc1_bias", biases),
        ("mlp_fc2_bias", biases),
        ("prenorm", "false"),
        ("rotary_emb_interleaved", "false"),
        ("rotary_emb_fraction", "1.0"),
    ];
    // The reference asserts what the graph of llama.cpp takes for granted.
    for (key, expected) in expected {
        let Some(value) = hparams.get(key) else { continue };
        let spelled = value.to_string();
        if spelled != expected {
            return Err(bad(key, value, "what Nomic embeddings have"));
        }
    }
    if let Some(value) = hparams.get("rotary_emb_scale_base").filter(|value| **value != 0) {
        return Err(bad("rotary_emb_scale_base", value, "nothing"));
    }
    bert::keys(hparams, keys)
}
