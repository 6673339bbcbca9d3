//! Qwen 3.
//!
//! Config keys: those of every text model; pooling, of models that embed texts. A sliding window is
//! not written.
//!
//! Transforms: none. Rerankers are refused: their scores come from an output of two rows, which is not made here yet.
//!
//! Source: `Qwen3Model` in `conversion/qwen.py`.

use crate::models::prelude::*;
use crate::models::qwen2;

/// The row.
pub const QWEN3: Arch = Arch {
    name: "qwen3",
    classes: &[
        Class::new("Qwen3ForCausalLM"),
        Class::inner("Qwen3Model", "model."),
        Class::new("StepVLForConditionalGeneration"),
    ],
    example: "Qwen/Qwen3-8B",
    configs: &[QWEN3_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    // `Qwen3Model` is a `Qwen2Model` in the reference; embedding models have pooling, others nothing
    // more.
    keys: qwen2::keys,
    vocab: Route::SentencePieceOrGpt2,
    refuses: reranker,
    ..DECODER
};

/// A reranker has the class, config and tensors of a model that generates; its name and its card say what it is.
///
/// Source: `Qwen3Model._is_qwen3_reranker` in `conversion/qwen.py`.
pub fn reranker(input: &Input<'_>) -> Option<&'static str> {
    let text = |json: Option<&Json>, key: &str| {
        json.and_then(|json| json.get(key)).and_then(Json::as_str).unwrap_or_default().to_lowercase()
    };
    let names = [input.folder_name.to_lowercase(), text(Some(&input.config), "_name_or_path")];
    let named =
        names.iter().any(|name| name.contains("qwen3-reranker") || name.contains("qwen3-vl-reranker"));
    let is_reranker = named || text(input.card.as_ref(), "pipeline_tag") == "text-ranking";
    is_reranker
        .then_some("this is a reranker, whose scores are made of two rows of its output: not converted yet")
}

/// `Qwen3Config` of transformers 5.23.
const QWEN3_CONFIG: ConfigClass = ConfigClass {
    model_type: "qwen3",
    fields: &[
        &[
            ("vocab_size", INT, Int(151_936)),
            ("intermediate_size", INT, Int(22016)),
            ("num_key_value_heads", INT | NULL, Int(32)),
            ("head_dim", INT, Int(128)),
            ("max_position_embeddings", INT, Int(32768)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("attention_bias", BOOL, Bool(false)),
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
        // As in `Qwen2Config`.
        adjust::window_if_used(map, Json::Null);
        Ok(())
    },
    ..BASE
};
