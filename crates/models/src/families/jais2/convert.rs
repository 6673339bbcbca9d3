//! Jais 2.
//!
//! Config keys: those of every text model, the rotated dimensions.
//!
//! Transforms: none. Every projection and norm has a bias.
//!
//! Source: `Jais2Model` in `conversion/jais.py`.

use crate::prelude::*;

/// The row.
pub const JAIS2: Arch = Arch {
    name: "jais2",
    classes: &[Class::new("Jais2ForCausalLM")],
    example: "inceptionai/Jais-2-8B-Chat",
    configs: &[JAIS2_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::UNGATED_MLP],
    keys: |hparams, keys| {
        text_keys(hparams, keys)?;
        // The whole head is rotated, 3328 / 26 = 128 by the defaults.
        keys.set_derived("rope.dimension_count", "head_dim", hparams.head_dim()?)
    },
    ..DECODER
};

/// `Jais2Config` of transformers 5.23.
const JAIS2_CONFIG: ConfigClass = ConfigClass {
    model_type: "jais2",
    fields: &[
        &[
            ("vocab_size", INT, Int(150_272)),
            ("hidden_size", INT, Int(3328)),
            ("intermediate_size", INT, Int(26624)),
            ("num_attention_heads", INT, Int(26)),
            ("num_key_value_heads", INT | NULL, Null),
            ("hidden_act", TEXT, Text("relu2")),
            ("max_position_embeddings", INT, Int(8192)),
            ("bos_token_id", INT | NULL, Int(0)),
            ("eos_token_id", INT | NULL | INTS, Int(150_024)),
            ("attention_bias", BOOL, Bool(true)),
            ("attention_dropout", INT | FLOAT | NULL, Float(0.0)),
            ("mlp_bias", BOOL, Bool(true)),
            ("layer_norm_eps", FLOAT, Float(1e-5)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::HeadDim, Fill::KvHeads],
    heads_divide_hidden: true,
    ..BASE
};
