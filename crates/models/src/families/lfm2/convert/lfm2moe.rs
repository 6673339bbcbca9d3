//! LFM2, mixtures of experts.
//!
//! Config keys: those of every text model, with key heads by layer like LFM2; experts and leading dense layers.
//!
//! Transforms: the convolution loses a dimension; experts become one tensor.
//!
//! Source: `LFM2MoeModel` in `conversion/lfm2.py`.

use crate::families::lfm2::convert::lfm2::{self, LFM2};
use crate::prelude::*;

pub const LFM2MOE: Arch = Arch {
    name: "lfm2moe",
    classes: &[Class::new("Lfm2MoeForCausalLM")],
    example: "LiquidAI/LFM2-8B-A1B",
    configs: &[LFM2_MOE_CONFIG],
    tensors: &[lfm2::ENDS, NORMS, DENSE, EXPERTS, lfm2::CONVOLUTION, lfm2::ATTENTION],
    keys,
    built_in: &[NORMALIZES_EXPERTS],
    ..LFM2
};

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.operator_norm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.ffn_norm"], "blk.{bid}.ffn_norm"),
];

const DENSE: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w1"], "blk.{bid}.ffn_gate").need(IS_DENSE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w2"], "blk.{bid}.ffn_down").need(IS_DENSE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w3"], "blk.{bid}.ffn_up").need(IS_DENSE),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.feed_forward.gate"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.expert_bias"], "blk.{bid}.exp_probs_b")
        .bare(".bias")
        .need(Need::Optional),
    TensorRule::stack(&["model.layers.{bid}.feed_forward.experts.{xid}.w1"], "blk.{bid}.ffn_gate_exps")
        .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.feed_forward.experts.{xid}.w2"], "blk.{bid}.ffn_down_exps")
        .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.feed_forward.experts.{xid}.w3"], "blk.{bid}.ffn_up_exps")
        .need(IS_MIXTURE),
];

const IS_MIXTURE: Need = Need::If(is_mixture);
const IS_DENSE: Need = Need::If(|hparams, bid| !is_mixture(hparams, bid));

/// All but the first few layers are mixtures.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    bid >= hparams.get_u64("num_dense_layers").ok().flatten().unwrap_or(0)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(&hparams.with("num_key_value_heads", lfm2::heads_by_layer(hparams)?.into()), keys)?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.needed("leading_dense_block_count", hparams, &["num_dense_layers"])?;
    // Scores go through a sigmoid.
    keys.set_prefixed("expert_gating_func", Value::U32(2));
    keys.vocab_size(hparams)?;
    keys.needed("shortconv.l_cache", hparams, &["conv_L_cache"])
}

/// `Lfm2MoeConfig`.
const LFM2_MOE_CONFIG: ConfigClass = ConfigClass::new("lfm2_moe").adjusted(|map| {
    adjust::rename(map, "tie_embedding", "tie_word_embeddings");
    Ok(())
});
