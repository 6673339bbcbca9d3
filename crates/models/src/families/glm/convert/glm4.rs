//! GLM 4 0414, and text parts of GLM 4.1V and GLM-OCR.
//!
//! Config keys: those of every text model, `partial_rotary_factor`; the layers of multi-token prediction (OCR).
//!
//! Transforms: gate and up stay one matrix. Models with images rotate neighbours and llama.cpp then rotates halves:
//! rotated rows of queries and keys are brought to that order. Layers of multi-token prediction follow the others, where
//! the checkpoint has them.
//!
//! Source: `Glm4Model` and `GlmOCRModel` in `conversion/glm.py`.

use crate::families::glm::convert::{chatglm, glm4moe};
use crate::prelude::*;

/// The row.
pub const GLM4: Arch = Arch {
    name: "glm4",
    classes: &[
        Class::new("Glm4ForCausalLM"),
        Class::new("Glm4vForConditionalGeneration"),
        Class::new("GlmOcrForConditionalGeneration"),
    ],
    example: "zai-org/GLM-4-9B-0414",
    configs: &[GLM4_CONFIG, GLM4V_CONFIG, GLM_OCR_CONFIG],
    tensors: &[rules::DECODER_ENDS, NORMS, ATTENTION, rules::FUSED_MLP, glm4moe::PREDICTION],
    keys,
    prepare: glm4moe::count_predicted,
    vocab: ROUTE,
    harmless: &["hidden_act=silu"],
    ..DECODER
};

/// Byte-level BPE with special ids by text.
pub const ROUTE: Route = Route::new("glm4", |writer| {
    writer.gpt2(&BpeStyle {
        by_text: &[
            ("eos", "<|endoftext|>"),
            ("eot", "<|user|>"),
            ("unk", "<|endoftext|>"),
            ("bos", "<|endoftext|>"),
        ],
        ..BpeStyle::GPT2
    })
});

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    // Four norms a layer: before and after attention, before and after the feed-forward part.
    TensorRule::copy(&["model.layers.{bid}.post_self_attn_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_mlp_layernorm"], "blk.{bid}.post_ffw_norm"),
];

const ATTENTION: &[TensorRule] = &[
    TensorRule::part(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q", by_halves),
    TensorRule::part(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k", by_halves),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

/// Rotated rows of each head in halves, where positions have sections (time, height, width).
fn by_halves(hparams: &Hparams, _: &Shape) -> Result<RowMap, ArchError> {
    if hparams.rope().get("mrope_section").is_none() {
        return Ok(RowMap::Concat);
    }
    let head = hparams.head_dim()?;
    Ok(RowMap::RopeHalves { head, rotated: hparams.rotated(head, Some(0.5))? })
}

/// `Glm4vConfig` of transformers 5.23: text and images.
const GLM4V_CONFIG: ConfigClass = ConfigClass {
    model_type: "glm4v",
    fields: &[],
    has_rope: false,
    adjust: |map| adjust::text_config(map, &GLM4V_TEXT_CONFIG),
    ..BASE
};

const GLM4V_TEXT_CONFIG: ConfigClass = ConfigClass {
    model_type: "glm4v_text",
    fields: &[
        &[
            ("vocab_size", INT, Int(151_552)),
            ("intermediate_size", INT, Int(13696)),
            ("num_hidden_layers", INT, Int(40)),
            ("num_key_value_heads", INT | NULL, Int(2)),
            ("max_position_embeddings", INT, Int(32768)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    ..BASE
};

/// `GlmOcrConfig` of transformers 5.23.
const GLM_OCR_CONFIG: ConfigClass = ConfigClass {
    model_type: "glm_ocr",
    adjust: |map| adjust::text_config(map, &GLM_OCR_TEXT_CONFIG),
    ..GLM4V_CONFIG
};

const GLM_OCR_TEXT_CONFIG: ConfigClass = ConfigClass {
    model_type: "glm_ocr_text",
    fields: &[
        &[
            ("vocab_size", INT, Int(59392)),
            ("hidden_size", INT, Int(1024)),
            ("intermediate_size", INT, Int(4096)),
            ("num_hidden_layers", INT, Int(16)),
            ("num_attention_heads", INT, Int(16)),
            ("num_key_value_heads", INT, Int(8)),
            ("max_position_embeddings", INT, Int(131_072)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
        ],
        DECODER_FIELDS,
    ],
    ..GLM4V_TEXT_CONFIG
};

/// `Glm4Config` of transformers 5.23.
const GLM4_CONFIG: ConfigClass = ConfigClass {
    model_type: "glm4",
    fields: &[
        &[
            ("num_key_value_heads", INT, Int(2)),
            ("head_dim", INT, Int(128)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
        ],
        chatglm::GLM_CONFIG.fields[0],
        DECODER_FIELDS,
    ],
    ..chatglm::GLM_CONFIG
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.set_derived("rope.dimension_count", "head_dim", hparams.rotated(hparams.head_dim()?, Some(0.5))?)?;
    keys.count("nextn_predict_layers", hparams, &[glm4moe::PREDICTED])
}
