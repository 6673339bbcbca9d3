//! Ling 2 and Ring 2: Bailing's second mixture of experts.
//!
//! Config keys: those of every text model, the rotated part of a head, leading dense layers, experts
//! and their weights, the layers of multi-token prediction.
//!
//! Transforms: experts become one tensor; Q, K and V stay one matrix. Layers of multi-token
//! prediction follow the others.
//!
//! Source: `BailingMoeV2Model` in `conversion/bailingmoe.py`.

use crate::families::bailing::convert::bailingmoe;
use crate::families::glm::convert::glm4moe::{PREDICTED, PREDICTION, count_predicted};
use crate::prelude::*;

pub const BAILINGMOE2: Arch = Arch {
    name: "bailingmoe2",
    classes: &[Class::new("BailingMoeV2ForCausalLM")],
    example: "inclusionAI/Ling-mini-2.0",
    tensors: &[
        bailingmoe::ENDS,
        rules::PRE_NORMS,
        ATTENTION,
        &[EXPERT_BIAS],
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(is_mixture)),
        PREDICTION,
    ],
    // Half of a head is rotated unless `partial_rotary_factor` says otherwise.
    keys: |hparams, keys| keys_of(hparams, keys, hparams.rotated(hparams.head_dim()?, Some(0.5))?),
    prepare: count_predicted,
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.attention.query_key_value"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["model.layers.{bid}.attention.dense"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["model.layers.{bid}.attention.query_layernorm"], "blk.{bid}.attn_q_norm")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.attention.key_layernorm"], "blk.{bid}.attn_k_norm")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.final_layernorm"], "blk.{bid}.layer_output_norm")
        .need(Need::Optional),
];

const EXPERT_BIAS: TensorRule =
    TensorRule::copy(&["model.layers.{bid}.mlp.gate.expert_bias"], "blk.{bid}.exp_probs_b")
        .bare(".bias")
        .need(Need::Optional);

/// Tensors of models that center the bias of the experts.
pub const CENTERED: &[&[TensorRule]] = &[
    bailingmoe::ENDS,
    rules::PRE_NORMS,
    ATTENTION,
    &[EXPERT_BIAS.element_of(|_, _, _| Ok(ElementMap::CENTERED))],
    &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
    &rules::qwen_experts(Need::If(is_mixture)),
    &rules::shared_experts(Need::If(is_mixture)),
    PREDICTION,
];

/// True if the feed-forward part of a layer is a mixture: all but the first few are.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let dense = hparams.get("first_k_dense_replace").and_then(Json::as_u64);
    bid >= dense.unwrap_or(0)
}

/// Number of shared experts; the second spelling is that of GLM's classes, with which transformers runs Sarvam.
const SHARED: &[&str] = &["num_shared_experts", "n_shared_experts"];

/// The keys, with this number of rotated dimensions of a head.
pub fn keys_of(hparams: &Hparams, keys: &mut Keys, rotated: u64) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // The text keys come first in the reference, so the sources recorded here do not change their
    // order.
    keys.derived_from("expert_shared_count", &["num_shared_experts"]);
    keys.set_derived("rope.dimension_count", "head_dim", rotated)?;
    keys.needed("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    keys.vocab_size(hparams)?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // Older configs state the length of one shared expert and how many there are; the file has the sum.
    let length = match hparams.get_u64("moe_shared_expert_intermediate_size")? {
        Some(length) => length,
        None => hparams.need_u64(&["moe_intermediate_size"])?.saturating_mul(hparams.need_u64(SHARED)?),
    };
    keys.set_derived("expert_shared_feed_forward_length", "num_shared_experts", length)?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.needed("expert_shared_count", hparams, SHARED)?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    keys.count("nextn_predict_layers", hparams, &[PREDICTED])
}
