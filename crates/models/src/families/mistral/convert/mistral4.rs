//! Mistral Small 4, the text part: DeepSeek's latent attention and mixture, whose experts are stacked.
//!
//! Config keys: those of DeepSeek 2.
//!
//! Transforms: those of DeepSeek 2; gate and up of the experts stay one tensor.
//!
//! Source: `Mistral3Model.Mistral4Model` in `conversion/mistral3.py`.

use crate::parts::latent::{self, LATENT};
use crate::prelude::*;

pub const MISTRAL4: Arch = Arch {
    name: "mistral4",
    // The wrapper is that of Mistral 3: its text part says which of both it is.
    classes: &[Class::new("Mistral3ForConditionalGeneration"), Class::new("Mistral4ForCausalLM")],
    fits: Some(|input| {
        let config = &input.config;
        let text = config.get("text_config").filter(|text| text.is_object()).unwrap_or(config);
        text.get("model_type").is_some_and(|model_type| model_type == "mistral4")
    }),
    example: "mistralai/Mistral-Small-4-119B-2603",
    configs: &[MISTRAL4_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        latent::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !latent::is_mixture(hparams, bid))),
        EXPERTS,
        &rules::shared_experts(Need::If(latent::has_shared)),
        latent::CORRECTION,
    ],
    // The rotated part of a head has its own length.
    harmless: &["rope_parameters.partial_rotary_factor"],
    drops: latent::drop_tied,
    yarn: YarnScales::RotationAndScoresByMultiplier,
    ..LATENT
};

/// Experts as the classes of transformers 5 store them: stacked, gate before up in one tensor.
const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.gate"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE),
    // Parameters without `.weight` in the checkpoint, which the file's names get.
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.down_proj"], "blk.{bid}.ffn_down_exps")
        .bare(".weight")
        .need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.gate_up_proj"], "blk.{bid}.ffn_gate_up_exps")
        .bare(".weight")
        .need(IS_MIXTURE),
];

const IS_MIXTURE: Need = Need::If(latent::is_mixture);

/// `Mistral4Config`.
pub const MISTRAL4_CONFIG: ConfigClass = ConfigClass::new("mistral4").adjusted(config);

/// A head is both of its parts; rotary parameters that are absent are those of the published model.
fn config(map: &mut Map<String, Json>) -> Result<(), String> {
    let count = |key| adjust::count(map, key).unwrap_or(0);
    let (rotated, plain) = (count("qk_rope_head_dim"), count("qk_nope_head_dim"));
    let head = plain.saturating_add(rotated);
    let length = map.get("max_position_embeddings").cloned().unwrap_or_default();
    map.insert("head_dim".into(), head.into());
    let has_rope =
        ["rope_parameters", "rope_scaling"].iter().any(|key| map.get(*key).is_some_and(Json::is_object));
    if !has_rope {
        // YaRN, from 8192 tokens to 128 * 8192 = 1048576
        let rope = json!({
            "type": "yarn", "rope_theta": 10_000.0, "factor": 128.0, "original_max_position_embeddings": 8192,
            "max_position_embeddings": length, "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0,
            "mscale": 1.0, "llama_4_scaling_beta": 0.1
        });
        map.insert("rope_parameters".into(), rope);
    }
    if let Some(Json::Object(rope)) = map.get_mut("rope_parameters")
        && head > 0
    {
        // rotated / head, which is 64 / (64 + 64) = 0.5 by the defaults
        rope.entry("partial_rotary_factor").or_insert((rotated as f64 / head as f64).into());
    }
    Ok(())
}
