//! StarCoder 2.
//!
//! Config keys: those of every text model. A sliding window is not written.
//!
//! Transforms: none.
//!
//! Source: `StarCoder2Model` in `conversion/starcoder.py`.

use crate::prelude::*;

/// The row.
pub const STARCODER2: Arch = Arch {
    name: "starcoder2",
    classes: &[Class::new("Starcoder2ForCausalLM")],
    example: "bigcode/starcoder2-3b",
    configs: &[STARCODER2_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, MLP],
    harmless: &["norm_type=layer_norm"],
    ..DECODER
};

const MLP: &[TensorRule] = &[
    // GPT-2's names, but ordinary linear layers: nothing is transposed.
    TensorRule::copy(&["model.layers.{bid}.mlp.c_fc"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.mlp.c_proj"], "blk.{bid}.ffn_down"),
];

/// `Starcoder2Config` of transformers 5.23.
const STARCODER2_CONFIG: ConfigClass = ConfigClass {
    model_type: "starcoder2",
    fields: &[
        &[
            ("vocab_size", INT, Int(49152)),
            ("hidden_size", INT, Int(3072)),
            ("intermediate_size", INT, Int(12288)),
            ("num_hidden_layers", INT, Int(30)),
            ("num_attention_heads", INT, Int(24)),
            ("num_key_value_heads", INT, Int(2)),
            ("hidden_act", TEXT, Text("gelu_pytorch_tanh")),
            ("max_position_embeddings", INT, Int(4096)),
            ("initializer_range", FLOAT, Float(0.018042)),
            ("norm_epsilon", FLOAT, Float(1e-5)),
            ("bos_token_id", INT | NULL, Int(50256)),
            ("eos_token_id", INT | NULL | INTS, Int(50256)),
            ("sliding_window", INT | NULL, Null),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("residual_dropout", INT | FLOAT, Float(0.0)),
            ("embedding_dropout", INT | FLOAT, Float(0.0)),
            ("use_bias", BOOL, Bool(true)),
            ("tie_word_embeddings", BOOL, Bool(true)),
        ],
        DECODER_FIELDS,
    ],
    ..BASE
};
