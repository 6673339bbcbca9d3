//! Apertus, and the text part of Apertus 1.5.
//!
//! Config keys: those of llama; the parameters of the activation function, which the checkpoint has as tensors.
//!
//! Transforms: rotary scaling of type `llama3` becomes the computed tensor `rope_freqs`.
//!
//! Source: `ApertusModel` in `conversion/llama.py`. llama.cpp has no class for Apertus 1.5, whose text part is the same model.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const APERTUS: Arch = Arch {
    name: "apertus",
    classes: &[
        Class::new("ApertusForCausalLM"),
        Class::new("Apertus1p5TextForCausalLM"),
        Class::new("Apertus1p5ForConditionalGeneration"),
    ],
    example: "swiss-ai/Apertus-8B-Instruct-2509",
    configs: &[APERTUS_CONFIG, APERTUS1P5_TEXT_CONFIG, APERTUS1P5_CONFIG],
    tensors: &[rules::DECODER_ENDS, NORMS, rules::ATTENTION, rules::QK_NORMS, rules::UNGATED_MLP],
    numbers: &[
        // Both alphas are vectors of one element; beta and eps have no dimensions.
        NumberRule::new("model.layers.{bid}.mlp.act_fn.alpha_n", "xielu.alpha_n"),
        NumberRule::new("model.layers.{bid}.mlp.act_fn.alpha_p", "xielu.alpha_p"),
        NumberRule { dims: &[], ..NumberRule::new("model.layers.{bid}.mlp.act_fn.beta", "xielu.beta") },
        NumberRule { dims: &[], ..NumberRule::new("model.layers.{bid}.mlp.act_fn.eps", "xielu.eps") },
    ],
    keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
    harmless: &["qk_norm=true"],
    ..DECODER
};

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.attention_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.feedforward_layernorm"], "blk.{bid}.ffn_norm"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Without the rows of images and sounds the output is smaller than the embedding.
    if let Some(rows) = hparams.get("output_vocab_size") {
        return Err(bad("output_vocab_size", rows, "null: llama.cpp needs an output row for each token"));
    }
    llama::keys(hparams, keys)
}

/// `ApertusConfig`.
const APERTUS_CONFIG: ConfigClass = ConfigClass::new("apertus").adjusted(rope);

/// `Apertus1p5TextConfig`.
const APERTUS1P5_TEXT_CONFIG: ConfigClass = ConfigClass::new("apertus1p5_text").adjusted(rope);

/// `Apertus1p5Config`.
const APERTUS1P5_CONFIG: ConfigClass =
    ConfigClass::new("apertus1p5").adjusted(|map| adjust::text_config(map, &APERTUS1P5_TEXT_CONFIG));

/// The default argument of the class: from 8192 positions to 65536.
fn rope(map: &mut Map<String, Json>) -> Result<(), String> {
    if map.get("rope_parameters").is_none_or(Json::is_null) {
        let rope = json!({"rope_type": "llama3", "rope_theta": 12_000_000.0, "factor": 8.0,
                "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0});
        map.insert("rope_parameters".into(), rope);
    }
    Ok(())
}
