//! Arcee AFM.
//!
//! Config keys: those of llama.
//!
//! Transforms: those of llama; the feed-forward part has no gate.
//!
//! Source: `ArceeModel` in `conversion/llama.py` of llama.cpp, as vendored in
//! llama-cpp-python 0.3.36.

use crate::config::classes::FieldDefault::{Bool, Float, Int, Null, Text};
use crate::config::classes::{
    BASE, BOOL, ConfigClass, DECODER_FIELDS, Derived, FLOAT, INT, INTS, NULL, TEXT,
};
use crate::models::llama;
use crate::registry::{Arch, Class, DECODER};
use crate::tensors::rules;
use crate::vocab::Route;

/// The row.
pub const ARCEE: Arch = Arch {
    name: "arcee",
    classes: &[Class::new("ArceeForCausalLM")],
    example: "arcee-ai/AFM-4.5B",
    configs: &[ARCEE_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::UNGATED_MLP],
    keys: llama::keys,
    computed: llama::computed,
    vocab: Route::Llama,
    ..DECODER
};

/// `ArceeConfig` of transformers 5.23.
const ARCEE_CONFIG: ConfigClass = ConfigClass {
    model_type: "arcee",
    fields: &[
        &[
            ("hidden_size", INT, Int(2560)),
            ("intermediate_size", INT, Int(18432)),
            ("num_key_value_heads", INT | NULL, Null),
            ("hidden_act", TEXT, Text("relu2")),
            ("max_position_embeddings", INT, Int(4096)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("bos_token_id", INT | NULL, Int(128_000)),
            ("eos_token_id", INT | NULL | INTS, Int(128_001)),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("mlp_bias", BOOL, Bool(false)),
        ],
        DECODER_FIELDS,
    ],
    derived: &[Derived::HeadDim, Derived::KvHeads],
    heads_divide_hidden: true,
    ..BASE
};
