//! GLM 4.5 to 4.7, and text parts of GLM 4.5V and 4.6V: mixtures of experts.
//!
//! Config keys: those of every text model, the rotated part of a head, leading dense layers, experts
//! and their weights, the layers of multi-token prediction.
//!
//! Transforms: experts become one tensor. Layers of multi-token prediction follow the others, where
//! the checkpoint has them (transformers leaves them out on saving).
//!
//! Source: `Glm4MoeModel` in `conversion/glm.py`.

use crate::parts::latent::{CORRECTION, has_shared, is_mixture};
use crate::prelude::*;

pub const GLM4MOE: Arch = Arch {
    name: "glm4moe",
    classes: &[
        Class::new("Glm4MoeForCausalLM"),
        Class::new("Glm4vMoeForConditionalGeneration"),
        Class::new("Glm46VForConditionalGeneration"),
    ],
    // GLM 4.6V has a dense text model or a mixture.
    fits: Some(|input| text_key(&input.config, "n_routed_experts").is_some()),
    example: "zai-org/GLM-4.5-Air",
    configs: &[ConfigClass::new("glm4_moe"), GLM4V_MOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        NORMS,
        rules::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        // transformers saves GLM 4.6V with the stacked tensors of its classes.
        rules::STACKED_EXPERTS,
        &rules::shared_experts(Need::If(has_shared)),
        CORRECTION,
        PREDICTION,
    ],
    keys,
    prepare: count_predicted,
    prediction: Some(PREDICTED_LAYERS),
    vocab: ROUTE,
    harmless: &["hidden_act=silu"],
    ..DECODER
};

/// GLM 4.5 and later (`_set_vocab_glm`).
pub const ROUTE: Route = Route::new("glm4_moe", |writer| {
    writer.gpt2(&BpeStyle {
        by_text: &[
            ("bos", "[gMASK]"),
            ("eot", "<|user|>"),
            ("unk", "<|endoftext|>"),
            ("eom", "<|observation|>"),
        ],
        ..BpeStyle::GPT2
    })
});

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm").need(Need::Optional),
];

/// Tensors of an MTP layer in addition to those of a complete layer.
pub const PREDICTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.eh_proj"], "blk.{bid}.nextn.eh_proj").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.enorm"], "blk.{bid}.nextn.enorm").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.hnorm"], "blk.{bid}.nextn.hnorm").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.embed_tokens"], "blk.{bid}.nextn.embed_tokens")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.shared_head.norm"], "blk.{bid}.nextn.shared_head_norm")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.shared_head.head"], "blk.{bid}.nextn.shared_head_head")
        .need(Need::Optional),
];

/// The number of layers that predict more than the next token, once they are counted.
pub const PREDICTED: &str = "num_nextn_predict_layers";

/// Layers of the prediction are numbered on from the last one that the config counts.
pub const PREDICTED_LAYERS: Predicted = Predicted {
    keys: &[PREDICTED],
    is_part: |hparams, name| {
        let layer = || name.strip_prefix("model.layers.")?.split_once('.')?.0.parse::<u64>().ok();
        layer().is_some_and(|layer| hparams.n_layers().is_ok_and(|trunk| layer >= trunk))
    },
};

/// Removes the number of MTP layers if the checkpoint lacks all, with a note. transformers leaves them out when it saves a
/// model.
pub fn without_predicted(hparams: Hparams, key: &'static str, predicted: u64) -> Hparams {
    let mut hparams = hparams.without(key);
    if predicted > 0 {
        hparams.note(format!("config.json specifies MTP layers ({predicted}), but the checkpoint has none"));
    }
    hparams
}

/// Counts the layers of the prediction among the others, if the checkpoint has them.
pub fn count_predicted(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    // GLM 4.5 Air: 46 layers, and layer 46 of the checkpoint is the prediction.
    let trunk = hparams.n_layers()?;
    // MTP layers continue the numbering after the last layer, with additional tensors.
    let predicted = hparams.get_u64(PREDICTED)?.unwrap_or(0);
    let first = format!("model.layers.{trunk}.");
    // The text part of a model of several kinds has another start.
    let is_one = |tensor: &SourceTensor| tensor.name.replacen("language_model.", "", 1).starts_with(&first);
    if !tensors.iter().any(is_one) {
        // Saved by transformers, which leaves that layer out: then the file has no key for it either.
        return Ok(without_predicted(hparams, PREDICTED, predicted));
    }
    Ok(hparams.with("num_hidden_layers", trunk.saturating_add(predicted).into()))
}

/// `Glm4vMoeConfig`: text and images.
const GLM4V_MOE_CONFIG: ConfigClass = ConfigClass::new("glm4v_moe")
    .adjusted(|map| adjust::text_config(map, &ConfigClass::new("glm4v_moe_text")));

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    let rotated = hparams.rotated(hparams.head_dim()?, Some(0.5))?;
    keys.set_derived("rope.dimension_count", "head_dim", rotated)?;
    keys.count("expert_count", hparams, &["n_routed_experts"])?;
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.count("expert_shared_count", hparams, &["n_shared_experts"])?;
    keys.count("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    // Scores go through a sigmoid.
    keys.set_prefixed("expert_gating_func", Value::U32(2));
    keys.number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    // Older configs leave the key out, and so does the file.
    if hparams.get("norm_topk_prob").is_some() {
        keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    }
    keys.count("nextn_predict_layers", hparams, &[PREDICTED])
}
