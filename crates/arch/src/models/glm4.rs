//! GLM 4 0414.
//!
//! Config keys: those of every text model, `partial_rotary_factor`.
//!
//! Transforms: none; gate and up stay one matrix. The permutation for images (`mrope_section`) is
//! not known here.
//!
//! Source: `Glm4Model` in `conversion/glm.py`.

use crate::models::prelude::*;

/// The row.
pub const GLM4: Arch = Arch {
    name: "glm4",
    classes: &[Class::new("Glm4ForCausalLM")],
    example: "zai-org/GLM-4-9B-0414",
    configs: &[GLM4_CONFIG],
    tensors: &[rules::DECODER_ENDS, NORMS, rules::ATTENTION, rules::FUSED_MLP],
    keys,
    vocab: Route::Glm4,
    ..DECODER
};

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    // Four norms a layer: before and after attention, before and after the feed-forward part.
    TensorRule::copy(&["model.layers.{bid}.post_self_attn_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_mlp_layernorm"], "blk.{bid}.post_ffw_norm"),
];

/// `Glm4Config` of transformers 5.23.
const GLM4_CONFIG: ConfigClass = ConfigClass {
    model_type: "glm4",
    fields: &[
        &[
            ("vocab_size", INT, Int(151_552)),
            ("intermediate_size", INT, Int(13696)),
            ("num_hidden_layers", INT, Int(40)),
            ("num_key_value_heads", INT, Int(2)),
            ("head_dim", INT, Int(128)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("max_position_embeddings", INT, Int(131_072)),
            ("rms_norm_eps", FLOAT, Float(1.5625e-7)),
            ("pad_token_id", INT | NULL, Int(151_329)),
            ("eos_token_id", INT | NULL | INTS, Null),
            ("bos_token_id", INT | NULL, Null),
            ("attention_bias", BOOL, Bool(true)),
        ],
        DECODER_FIELDS,
    ],
    adjust: |map| {
        // Half of each head is rotated where the file does not say.
        adjust::partial_rotary(map, 0.5);
        Ok(())
    },
    ..BASE
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // The reference permutes Q and K of models with images; without that the text part would be wrong.
    if let Some(sections) = hparams.rope().get("mrope_section") {
        return Err(bad(
            "rope_parameters.mrope_section",
            sections,
            "nothing: models with images are not known",
        ));
    }
    text_keys(hparams, keys)?;
    keys.set_derived("rope.dimension_count", "head_dim", hparams.rotated(hparams.head_dim()?, Some(0.5))?)
}
