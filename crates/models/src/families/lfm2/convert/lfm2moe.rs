//! LFM2, mixtures of experts.
//!
//! Config keys: those of every text model, with key heads by layer as of LFM2; experts and leading dense layers.
//!
//! Transforms: the convolution loses a dimension; experts become one tensor.
//!
//! Source: `LFM2MoeModel` in `conversion/lfm2.py`.

use crate::families::lfm2::convert::lfm2::{self, LFM2};
use crate::prelude::*;

/// The row.
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
    text_keys(&hparams.with("num_key_value_heads", lfm2::heads_by_layer(hparams)?), keys)?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.needed("leading_dense_block_count", hparams, &["num_dense_layers"])?;
    // Scores go through a sigmoid.
    keys.set_prefixed("expert_gating_func", Value::U32(2));
    keys.vocab_size(hparams)?;
    keys.needed("shortconv.l_cache", hparams, &["conv_L_cache"])
}

/// `Lfm2MoeConfig` of transformers 5.23.
const LFM2_MOE_CONFIG: ConfigClass = ConfigClass {
    model_type: "lfm2_moe",
    default_theta: 1_000_000.0,
    fields: &[
        &[
            ("vocab_size", INT, Int(65536)),
            ("hidden_size", INT, Int(2048)),
            ("intermediate_size", INT, Int(7168)),
            ("moe_intermediate_size", INT, Int(1792)),
            ("num_key_value_heads", INT, Int(8)),
            ("max_position_embeddings", INT, Int(128_000)),
            ("norm_eps", FLOAT, Float(1e-5)),
            ("pad_token_id", INT | NULL, Int(0)),
            ("tie_word_embeddings", BOOL, Bool(true)),
            ("conv_bias", BOOL, Bool(false)),
            ("conv_L_cache", INT, Int(3)),
            ("num_dense_layers", INT, Int(2)),
            ("num_experts_per_tok", INT, Int(4)),
            ("output_router_logits", BOOL, Bool(false)),
            ("num_experts", INT, Int(32)),
            ("use_expert_bias", BOOL, Bool(true)),
            ("routed_scaling_factor", FLOAT, Float(1.0)),
            ("norm_topk_prob", BOOL, Bool(true)),
            ("layer_types", NULL | TEXTS, Null),
        ],
        DECODER_FIELDS,
    ],
    renamed: &[("tie_embedding", "tie_word_embeddings")],
    ..BASE
};
