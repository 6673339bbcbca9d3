//! Command R, Command R+ and Aya 23.
//!
//! Config keys: those of every text model; the context length is `model_max_length` where the file
//! has it; `logit_scale`.
//!
//! Transforms: none. There is one norm a layer.
//!
//! Source: `CommandR2Model` in `conversion/command_r.py`.

use crate::prelude::*;

/// The row.
pub const COMMAND_R: Arch = Arch {
    name: "command-r",
    classes: &[Class::new("CohereForCausalLM")],
    example: "CohereLabs/c4ai-command-r-v01",
    configs: &[COHERE_CONFIG],
    tensors: &[rules::DECODER_ENDS, NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    ..DECODER
};

/// Norms of queries and keys are in Command R+ only.
const NORMS: &[TensorRule] = &[
    // Attention and the feed-forward part run side by side on it.
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm").need(NORMED),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm").need(NORMED),
];

const NORMED: Need = Need::If(|hparams, _| hparams.is_true("use_qk_norm"));

/// `CohereConfig` of transformers 5.23.
const COHERE_CONFIG: ConfigClass = ConfigClass {
    model_type: "cohere",
    default_theta: 500_000.0,
    fields: &[
        &[
            ("vocab_size", INT, Int(256_000)),
            ("hidden_size", INT, Int(8192)),
            ("intermediate_size", INT, Int(22528)),
            ("logit_scale", FLOAT | NULL, Float(0.0625)),
            ("num_hidden_layers", INT, Int(40)),
            ("num_attention_heads", INT, Int(64)),
            ("num_key_value_heads", INT | NULL, Null),
            ("max_position_embeddings", INT, Int(8192)),
            ("layer_norm_eps", FLOAT | NULL, Float(1e-5)),
            ("pad_token_id", INT | NULL, Int(0)),
            ("bos_token_id", INT | NULL, Int(5)),
            ("eos_token_id", INT | NULL | INTS, Int(255_001)),
            ("tie_word_embeddings", BOOL, Bool(true)),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT | NULL, Float(0.0)),
            ("use_qk_norm", BOOL | NULL, Bool(false)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    ..BASE
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Command R was trained for 8192 positions (`max_position_embeddings`) and serves 131072
    // (`model_max_length`).
    let length = hparams.need_u64(&["model_max_length", "max_position_embeddings"])?;
    text_keys(&hparams.with("max_position_embeddings", length.into()), keys)?;
    keys.needed_number("logit_scale", hparams, &["logit_scale"])?;
    // Stated because llama.cpp takes a missing key for linear scaling.
    keys.set_prefixed("rope.scaling.type", "none".into());
    Ok(())
}
