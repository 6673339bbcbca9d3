//! SmolLM 3.
//!
//! Config keys: those of llama. Layers without RoPE are not written; llama.cpp has them built in.
//!
//! Transforms: those of llama.
//!
//! Source: `SmolLM3Model` in `conversion/llama.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;
use gguf_layout::built_in::is_zero_every;

/// The row.
pub const SMOLLM3: Arch = Arch {
    name: "smollm3",
    classes: &[Class::new("SmolLM3ForCausalLM")],
    example: "HuggingFaceTB/SmolLM3-3B",
    configs: &[SMOLLM3_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    // Every fourth layer is not rotated (`no_rope_layers`). `SmolLM3Model` writes no key for it: the
    // graph has the period.
    keys: llama::keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
    built_in: &[BuiltIn::unless("no_rope_layers", "no rotation in every fourth layer", |_, flags| {
        is_zero_every(4, flags)
    })],
    ..DECODER
};

/// `SmolLM3Config` of transformers 5.23.
const SMOLLM3_CONFIG: ConfigClass = ConfigClass {
    model_type: "smollm3",
    default_theta: 2_000_000.0,
    fields: &[
        &[
            ("vocab_size", INT, Int(128_256)),
            ("hidden_size", INT, Int(2048)),
            ("intermediate_size", INT, Int(11008)),
            ("num_hidden_layers", INT, Int(36)),
            ("num_attention_heads", INT, Int(16)),
            ("num_key_value_heads", INT | NULL, Int(4)),
            ("max_position_embeddings", INT, Int(32768)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("pad_token_id", INT | NULL, Int(128_004)),
            ("bos_token_id", INT | NULL, Int(128_000)),
            ("eos_token_id", INT | NULL | INTS, Int(128_001)),
            ("use_sliding_window", BOOL, Bool(false)),
            ("sliding_window", INT | NULL, Null),
            // 1 for layers that are rotated, against the name; no converter reads it.
            ("no_rope_layers", NULL | INTS, Null),
            ("no_rope_layer_interval", INT, Int(4)),
            ("layer_types", NULL | TEXTS, Null),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("mlp_bias", BOOL, Bool(false)),
            ("tie_word_embeddings", BOOL, Bool(true)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    ..BASE
};
