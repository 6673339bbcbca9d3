//! Qwen 2 and 2.5.
//!
//! Config keys: those of every text model; pooling, of models that embed texts. A sliding window is
//! not written.
//!
//! Transforms: none.
//!
//! Source: `Qwen2Model` in `conversion/qwen.py`.

use crate::prelude::*;

/// The row.
pub const QWEN2: Arch = Arch {
    name: "qwen2",
    classes: &[
        Class::new("Qwen2ForCausalLM"),
        Class::inner("Qwen2Model", "model."),
        Class::new("KORMoForCausalLM"),
        // Text parts of models with ears or eyes.
        Class::new("Qwen2AudioForConditionalGeneration"),
        Class::new("AudioFlamingo3ForConditionalGeneration"),
        Class::new("DotsOCRForCausalLM"),
    ],
    example: "Qwen/Qwen2.5-7B-Instruct",
    configs: &[QWEN2_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    ..DECODER
};

/// `Qwen2Config` of transformers 5.23.
pub const QWEN2_CONFIG: ConfigClass = ConfigClass {
    model_type: "qwen2",
    fields: &[
        &[
            ("vocab_size", INT, Int(151_936)),
            ("intermediate_size", INT, Int(22016)),
            ("num_key_value_heads", INT | NULL, Int(32)),
            ("max_position_embeddings", INT, Int(32768)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("use_sliding_window", BOOL, Bool(false)),
            ("sliding_window", INT | NULL, Int(4096)),
            ("max_window_layers", INT, Int(28)),
            ("layer_types", NULL | TEXTS, Null),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("bos_token_id", INT | NULL, Null),
            ("eos_token_id", INT | NULL | INTS, Null),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    adjust: |map| {
        // `Qwen2Config`: `sliding_window if use_sliding_window else None`.
        adjust::window_if_used(map, Json::Null);
        Ok(())
    },
    ..BASE
};

/// Keys of every text model, and pooling.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    pooling::keys(hparams, keys)
}
