//! GLM 4 0414, and text parts of GLM 4.1V and GLM-OCR.
//!
//! Config keys: those of every text model, `partial_rotary_factor`; the layers of multi-token prediction (OCR).
//!
//! Transforms: gate and up stay one matrix. Models with images rotate neighbours and llama.cpp then rotates halves:
//! rotated rows of queries and keys are brought to that order. Layers of multi-token prediction follow the others, where
//! the checkpoint has them.
//!
//! Source: `Glm4Model` and `GlmOCRModel` in `conversion/glm.py`.

use crate::families::glm::convert::glm4moe;
use crate::prelude::*;

pub const GLM4: Arch = Arch {
    name: "glm4",
    classes: &[
        Class::new("Glm4ForCausalLM"),
        Class::new("Glm4vForConditionalGeneration"),
        Class::new("GlmOcrForConditionalGeneration"),
        Class::new("Glm46VForConditionalGeneration"),
    ],
    example: "zai-org/GLM-4-9B-0414",
    configs: &[ConfigClass::new("glm4"), GLM4V_CONFIG, GLM_OCR_CONFIG, GLM46V_CONFIG],
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

/// `Glm4vConfig`: text and images.
const GLM4V_CONFIG: ConfigClass =
    ConfigClass::new("glm4v").adjusted(|map| adjust::text_config(map, &ConfigClass::new("glm4v_text")));

/// `Glm46VConfig`: text of either GLM 4V, and images.
const GLM46V_CONFIG: ConfigClass = ConfigClass::new("glm46v").adjusted(|map| {
    let text = map.get("text_config").and_then(|text| text.get("model_type")).and_then(Json::as_str);
    let is_mixture = text == Some("glm4v_moe_text");
    adjust::text_config(map, &ConfigClass::new(if is_mixture { "glm4v_moe_text" } else { "glm4v_text" }))
});

/// `GlmOcrConfig`.
const GLM_OCR_CONFIG: ConfigClass =
    ConfigClass::new("glm_ocr").adjusted(|map| adjust::text_config(map, &ConfigClass::new("glm_ocr_text")));

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.set_derived("rope.dimension_count", "head_dim", hparams.rotated(hparams.head_dim()?, Some(0.5))?)?;
    keys.count("nextn_predict_layers", hparams, &[glm4moe::PREDICTED])
}
