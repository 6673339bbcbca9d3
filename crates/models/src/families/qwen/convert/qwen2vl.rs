//! Text parts of Qwen 2 VL, Qwen 2.5 VL and Qwen 2.5 Omni.
//!
//! Config keys: those of every text model, including the sections of the rotated dimensions (time, height,
//! width).
//!
//! Transforms: none. Omni's tensors have the prefix `thinker.`.
//!
//! Source: `Qwen2VLModel` in `conversion/qwenvl.py`.

use crate::prelude::*;

/// The row.
pub const QWEN2VL: Arch = Arch {
    name: "qwen2vl",
    classes: &[
        Class::new("Qwen2VLForConditionalGeneration"),
        Class::new("Qwen2VLModel"),
        Class::new("Qwen2_5_VLForConditionalGeneration"),
        Class::new("Qwen2_5OmniModel"),
    ],
    example: "Qwen/Qwen2.5-VL-3B-Instruct",
    configs: &[QWEN2_VL_CONFIG, QWEN2_5_VL_CONFIG, QWEN2_5_OMNI_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    rename: |_, name| name.contains("thinker.").then(|| name.replace("thinker.", "")),
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    harmless: &["hidden_act=silu"],
    ..DECODER
};

/// `Qwen2VLTextConfig` of transformers 5.23; that of 2.5 has the same fields.
const TEXT_CONFIG: ConfigClass = ConfigClass {
    model_type: "qwen2_vl_text",
    default_theta: 1_000_000.0,
    fields: &[
        &[
            ("vocab_size", INT, Int(152_064)),
            ("hidden_size", INT, Int(8192)),
            ("intermediate_size", INT, Int(29568)),
            ("num_hidden_layers", INT, Int(80)),
            ("num_attention_heads", INT, Int(64)),
            ("num_key_value_heads", INT | NULL, Int(8)),
            ("max_position_embeddings", INT, Int(32768)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("use_sliding_window", BOOL | NULL, Bool(false)),
            ("sliding_window", INT | NULL, Int(4096)),
            ("max_window_layers", INT | NULL, Int(80)),
            ("layer_types", NULL | TEXTS, Null),
            ("attention_dropout", INT | FLOAT | NULL, Float(0.0)),
            ("bos_token_id", INT | NULL, Int(151_643)),
            ("eos_token_id", INT | NULL | INTS, Int(151_645)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    adjust: |map| {
        adjust::window_if_used(map, Json::Null);
        adjust::default_rope_sections(map);
        Ok(())
    },
    ..BASE
};

/// `Qwen2VLConfig` of transformers 5.23: text and images.
const QWEN2_VL_CONFIG: ConfigClass = ConfigClass {
    model_type: "qwen2_vl",
    fields: &[],
    has_rope: false,
    adjust: |map| adjust::text_config_or_flat(map, &TEXT_CONFIG),
    ..BASE
};

/// `Qwen2_5_VLConfig` of transformers 5.23.
const QWEN2_5_VL_CONFIG: ConfigClass = ConfigClass { model_type: "qwen2_5_vl", ..QWEN2_VL_CONFIG };

/// `Qwen2_5OmniConfig` of transformers 5.23: thinker, talker and token2wav. The thinker has the text part.
const QWEN2_5_OMNI_CONFIG: ConfigClass = ConfigClass {
    model_type: "qwen2_5_omni",
    adjust: |map| match map.get_mut("thinker_config").and_then(Json::as_object_mut) {
        Some(thinker) => adjust::text_config(thinker, &OMNI_TEXT_CONFIG),
        None => Err("no `thinker_config`".into()),
    },
    ..QWEN2_VL_CONFIG
};

const OMNI_TEXT_CONFIG: ConfigClass = ConfigClass {
    model_type: "qwen2_5_omni_text",
    fields: &[
        &[
            ("hidden_size", INT, Int(3584)),
            ("intermediate_size", INT, Int(18944)),
            ("num_hidden_layers", INT, Int(28)),
            ("num_attention_heads", INT, Int(28)),
            ("num_key_value_heads", INT | NULL, Int(4)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("sliding_window", INT | NULL, Int(32768)),
            ("max_window_layers", INT, Int(28)),
            ("bos_token_id", INT | NULL, Null),
            ("eos_token_id", INT | NULL | INTS, Null),
            ("tie_word_embeddings", BOOL, Bool(true)),
        ],
        TEXT_CONFIG.fields[0],
        DECODER_FIELDS,
    ],
    ..TEXT_CONFIG
};
