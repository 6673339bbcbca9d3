//! OLMo 1.
//!
//! Config keys: those of every text model, a fixed norm epsilon, `clip_qkv`.
//!
//! Transforms: rows of Q and K are permuted as for llama. Norms have no weights.
//!
//! Source: `OlmoModel` in `conversion/olmo.py`.

use crate::prelude::*;

/// The row.
pub const OLMO: Arch = Arch {
    name: "olmo",
    classes: &[Class::new("OlmoForCausalLM"), Class::new("OLMoForCausalLM")],
    example: "allenai/OLMo-1.7-7B-hf",
    configs: &[OLMO_CONFIG],
    tensors: &[ENDS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    keys,
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    // No norms at all: those of OLMo 1 have neither weight nor bias.
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

/// Fields that the classes of OLMo share.
pub const FIELDS: &[Field] = &[
    ("vocab_size", INT, Int(50304)),
    ("intermediate_size", INT, Int(11008)),
    ("num_key_value_heads", INT | NULL, Null),
    ("max_position_embeddings", INT, Int(2048)),
    ("pad_token_id", INT | NULL, Int(1)),
    ("bos_token_id", INT | NULL, Null),
    ("eos_token_id", INT | NULL | INTS, Int(50279)),
    ("attention_bias", BOOL, Bool(false)),
    ("attention_dropout", INT | FLOAT, Float(0.0)),
];

/// `OlmoConfig` of transformers 5.23.
const OLMO_CONFIG: ConfigClass = ConfigClass {
    model_type: "olmo",
    fields: &[FIELDS, &[("clip_qkv", FLOAT | NULL, Null)], DECODER_FIELDS],
    fill: &[Fill::KvHeads],
    ..BASE
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // Norms without weights still divide by a deviation; torch's default epsilon.
    keys.set_prefixed("attention.layer_norm_epsilon", Value::F32(1e-5));
    // OLMo 1.7 7B limits queries, keys and values to +- clip_qkv; other sizes have null and no key.
    keys.number("attention.clamp_kqv", hparams, &["clip_qkv"])
}
