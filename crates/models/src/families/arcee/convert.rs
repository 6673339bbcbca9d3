//! Arcee AFM.
//!
//! Config keys: those of llama.
//!
//! Transforms: those of llama; the feed-forward part has no gate.
//!
//! Source: `ArceeModel` in `conversion/llama.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

/// The row.
pub const ARCEE: Arch = Arch {
    name: "arcee",
    classes: &[Class::new("ArceeForCausalLM")],
    example: "arcee-ai/AFM-4.5B",
    configs: &[ARCEE_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::UNGATED_MLP],
    keys: llama::keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
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
    fill: &[Fill::HeadDim, Fill::KvHeads],
    heads_divide_hidden: true,
    ..BASE
};
