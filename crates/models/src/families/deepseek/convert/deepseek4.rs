//! DeepSeek 4: one key head, keys compressed in some layers, several residual streams, experts of 4 bits.
//!
//! Config keys: those of every text model; lengths and ranks of attention, what is compressed how much, the indexer, residual
//! streams, experts and the bounds of their gates, layers whose experts a table chooses.
//!
//! Transforms: experts stay in their blocks of MXFP4, matrices of FP8 become Q8_0, all others keep their type, whatever
//! type is asked of a float file. The tables of experts are integers. Prediction is left out.
//!
//! Source: `DeepseekV4Model` in `conversion/deepseek.py`, which reads the names of the original release.

use gguf_types::DType;

use crate::families::deepseek::convert::deepseek32;
use crate::families::dflash::convert as dflash;
use crate::families::glm::convert::glm5_next;
use crate::prelude::*;
use gguf_layout::tensors::rules::IntegerRule;

pub const DEEPSEEK4: Arch = Arch {
    name: "deepseek4",
    classes: &[Class::new("DeepseekV4ForCausalLM")],
    example: "deepseek-ai/DeepSeek-V4-Flash-Base",
    configs: &[],
    raw_config: true,
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "n_routed_experts", "vocab_size"],
    tensors: &[ENDS, LAYERS, COMPRESSORS, EXPERTS],
    keys,
    drops: |hparams, name| {
        let is_image_part = ["aligner.", "image_"].iter().any(|start| name.starts_with(start));
        let layer = || name.strip_prefix("layers.")?.strip_suffix(".ffn.gate.bias")?.parse::<u64>().ok();
        match name {
            _ if is_image_part => Some("part of an image, sound or speech model"),
            _ if name.starts_with("mtp.") => Some(drops::NO_PREDICTION),
            _ if layer().is_some_and(|layer| is_hashed(hparams, layer)) => {
                Some("a table chooses the experts of this layer")
            }
            _ => None,
        }
    },
    source_types: true,
    template_first: true,
    export: Export::NotExportable("its files have types that a checkpoint of floats has not"),
    ..DECODER
};

/// The row of DSpark drafts, whose tensors are the stages `mtp.N` of a checkpoint.
pub const DEEPSEEK4_DSPARK: Arch = Arch {
    name: "deepseek4-dspark",
    written: Some("dflash"),
    classes: &[Class::new("DeepseekV4DSparkModel")],
    example: "deepseek-ai/DeepSeek-V4-Flash-DSpark",
    needs: &["hidden_size", "num_attention_heads", "n_routed_experts", "vocab_size", "dspark_block_size"],
    tensors: &[DRAFT_ENDS, LAYERS, EXPERTS],
    keys: |hparams, keys| {
        shared_keys(hparams, keys)?;
        keys.needed("block_size", hparams, &["dspark_block_size"])?;
        let ids = hparams.get("dspark_target_layer_ids").ok_or_else(|| missing("dspark_target_layer_ids"))?;
        dflash::target_layers(Some(ids), keys)
    },
    drops: |_, name| match name {
        _ if !name.starts_with("mtp.") => Some("a part of the model that is drafted for"),
        _ if name.ends_with(".ffn.gate.bias_vl") => Some("part of an image, sound or speech model"),
        _ => None,
    },
    rename: |_, name| {
        let (stage, rest) = name.strip_prefix("mtp.")?.split_once('.')?;
        // These stand under a stage but are of the entire draft; all else is a layer, `mtp.2.x` as `layers.2.x`.
        let is_root = ["main_", "markov_head.", "confidence_head.", "norm.", "hc_head_"];
        Some(if is_root.iter().any(|start| rest.starts_with(start)) {
            rest.to_owned()
        } else {
            format!("layers.{stage}.{rest}")
        })
    },
    prepare: |hparams, tensors| {
        let stage =
            |tensor: &SourceTensor| tensor.name.strip_prefix("mtp.")?.split_once('.')?.0.parse::<u64>().ok();
        // Stages are the layers. No layer compresses keys, and no table chooses their experts.
        let n_layers = tensors.iter().filter_map(stage).max().map_or(1, |last| last.saturating_add(1));
        let ratios: Json = (0..n_layers.min(10_000)).map(|_| Json::from(0)).collect();
        let hparams = hparams.with("num_hidden_layers", n_layers.into()).with("compress_ratios", ratios);
        Ok(hparams.with("num_hash_layers", 0.into()))
    },
    draft: Some(Draft {
        route_of_target: false,
        mask: |hparams| hparams.get("dspark_noise_token_id")?.as_u64(),
    }),
    ..DEEPSEEK4
};

const DRAFT_ENDS: &[TensorRule] = &[
    TensorRule::copy(&["norm"], "output_norm"),
    TensorRule::copy(&["hc_head_fn"], "output_hc_fn").bare(".weight"),
    TensorRule::copy(&["hc_head_base"], "output_hc_base").bare(".weight"),
    TensorRule::copy(&["hc_head_scale"], "output_hc_scale").bare(".weight"),
    // States of some layers of the target, made one.
    TensorRule::copy(&["main_proj"], "fc"),
    TensorRule::copy(&["main_norm"], "enc.output_norm"),
    TensorRule::copy(&["markov_head.markov_w1"], "markov_w1"),
    TensorRule::copy(&["markov_head.markov_w2"], "markov_w2"),
    TensorRule::copy(&["confidence_head.proj"], "conf_proj").need(Need::Optional),
];

/// Ends, and how residual streams become one at the end.
const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["embed"], "token_embd"),
    TensorRule::copy(&["norm"], "output_norm"),
    TensorRule::copy(&["head"], "output").need(Need::Optional),
    TensorRule::copy(&["hc_head_fn"], "output_hc_fn").bare(".weight"),
    TensorRule::copy(&["hc_head_base"], "output_hc_base").bare(".weight"),
    TensorRule::copy(&["hc_head_scale"], "output_hc_scale").bare(".weight"),
];

/// Attention with one key head, projections of low rank, and what mixes residual streams.
const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["layers.{bid}.attn.wq_a"], "blk.{bid}.attn_q_a"),
    TensorRule::copy(&["layers.{bid}.attn.q_norm"], "blk.{bid}.attn_q_a_norm"),
    TensorRule::copy(&["layers.{bid}.attn.wq_b"], "blk.{bid}.attn_q_b"),
    TensorRule::copy(&["layers.{bid}.attn.wkv"], "blk.{bid}.attn_kv"),
    TensorRule::copy(&["layers.{bid}.attn.kv_norm"], "blk.{bid}.attn_kv_a_norm"),
    // Queries go through the rank `q_lora_rank`, the output through `o_lora_rank`.
    TensorRule::copy(&["layers.{bid}.attn.wo_a"], "blk.{bid}.attn_output_a"),
    TensorRule::copy(&["layers.{bid}.attn.wo_b"], "blk.{bid}.attn_output_b"),
    TensorRule::copy(&["layers.{bid}.attn_norm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["layers.{bid}.ffn_norm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["layers.{bid}.attn.attn_sink"], "blk.{bid}.attn_sinks").bare(".weight"),
    TensorRule::copy(&["layers.{bid}.hc_attn_fn"], "blk.{bid}.hc_attn_fn").bare(".weight"),
    TensorRule::copy(&["layers.{bid}.hc_attn_base"], "blk.{bid}.hc_attn_base").bare(".weight"),
    TensorRule::copy(&["layers.{bid}.hc_attn_scale"], "blk.{bid}.hc_attn_scale").bare(".weight"),
    TensorRule::copy(&["layers.{bid}.hc_ffn_fn"], "blk.{bid}.hc_ffn_fn").bare(".weight"),
    TensorRule::copy(&["layers.{bid}.hc_ffn_base"], "blk.{bid}.hc_ffn_base").bare(".weight"),
    TensorRule::copy(&["layers.{bid}.hc_ffn_scale"], "blk.{bid}.hc_ffn_scale").bare(".weight"),
];

/// Compressors, which merge several keys into one, and the indexer over the results.
const COMPRESSORS: &[TensorRule] = &[
    TensorRule::copy(&["layers.{bid}.attn.compressor.wkv"], "blk.{bid}.attn_compressor_kv")
        .need(IS_COMPRESSED),
    TensorRule::copy(&["layers.{bid}.attn.compressor.wgate"], "blk.{bid}.attn_compressor_gate")
        .need(IS_COMPRESSED),
    TensorRule::copy(&["layers.{bid}.attn.compressor.norm"], "blk.{bid}.attn_compressor_norm")
        .need(IS_COMPRESSED),
    TensorRule::copy(&["layers.{bid}.attn.indexer.wq_b"], "blk.{bid}.indexer.attn_q_b").need(Need::Optional),
    TensorRule::copy(&["layers.{bid}.attn.indexer.weights_proj"], "blk.{bid}.indexer.proj")
        .need(Need::Optional),
    TensorRule::copy(&["layers.{bid}.attn.indexer.compressor.wkv"], "blk.{bid}.indexer_compressor_kv")
        .need(Need::Optional),
    TensorRule::copy(&["layers.{bid}.attn.indexer.compressor.wgate"], "blk.{bid}.indexer_compressor_gate")
        .need(Need::Optional),
    TensorRule::copy(&["layers.{bid}.attn.indexer.compressor.norm"], "blk.{bid}.indexer_compressor_norm")
        .need(Need::Optional),
    TensorRule::copy(&["layers.{bid}.attn.compressor.ape"], "blk.{bid}.attn_compressor_ape")
        .bare(".weight")
        .need(IS_COMPRESSED),
    TensorRule::copy(&["layers.{bid}.attn.indexer.compressor.ape"], "blk.{bid}.indexer_compressor_ape")
        .bare(".weight")
        .need(Need::Optional),
];

/// The mixture. In the first layers a table says which experts a token has.
const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["layers.{bid}.ffn.gate"], "blk.{bid}.ffn_gate_inp"),
    TensorRule::copy(&["layers.{bid}.ffn.gate.bias"], "blk.{bid}.exp_probs_b")
        .bare(".bias")
        .need(Need::If(|hparams, bid| !is_hashed(hparams, bid))),
    TensorRule::copy(&["layers.{bid}.ffn.gate.bias_vl"], "blk.{bid}.exp_probs_b_vl")
        .bare(".bias")
        .need(Need::Optional),
    TensorRule::copy(&["layers.{bid}.ffn.gate.tid2eid"], "blk.{bid}.ffn_gate_tid2eid")
        .bare(".weight")
        .rows(RowRule::Integers(IntegerRule { dtype: DType::I32, distances: None, first: true }))
        .need(Need::If(is_hashed)),
    // w1 is the gate, w3 up, w2 down; so too in the shared experts.
    TensorRule::stack(&["layers.{bid}.ffn.experts.{xid}.w1"], "blk.{bid}.ffn_gate_exps"),
    TensorRule::stack(&["layers.{bid}.ffn.experts.{xid}.w2"], "blk.{bid}.ffn_down_exps"),
    TensorRule::stack(&["layers.{bid}.ffn.experts.{xid}.w3"], "blk.{bid}.ffn_up_exps"),
    TensorRule::copy(&["layers.{bid}.ffn.shared_experts.w1"], "blk.{bid}.ffn_gate_shexp"),
    TensorRule::copy(&["layers.{bid}.ffn.shared_experts.w2"], "blk.{bid}.ffn_down_shexp"),
    TensorRule::copy(&["layers.{bid}.ffn.shared_experts.w3"], "blk.{bid}.ffn_up_shexp"),
];

/// Layers whose keys are compressed. Of these some have an indexer, which no key says.
const IS_COMPRESSED: Need = Need::If(|hparams, bid| {
    let ratio = hparams.get("compress_ratios").and_then(|ratios| ratios.get(usize::try_from(bid).ok()?));
    ratio.and_then(Json::as_u64).is_some_and(|ratio| ratio > 0)
});

/// True if a table assigns the experts of a token.
fn is_hashed(hparams: &Hparams, bid: u64) -> bool {
    bid < hparams.get("num_hash_layers").and_then(Json::as_u64).unwrap_or(0)
}

/// Keys that the model and its draft share.
fn shared_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    let n_layers = hparams.n_layers()?;
    keys.needed("rope.dimension_count", hparams, &["qk_rope_head_dim"])?;
    keys.needed("attention.q_lora_rank", hparams, &["q_lora_rank"])?;
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.needed("expert_shared_count", hparams, &["n_shared_experts"])?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    // One bound for all layers, of routed and of shared experts alike.
    let limit = hparams.need_f64("swiglu_limit")? as f32;
    glm5_next::clamps(keys, "swiglu_clamp_exp", limit, n_layers)?;
    glm5_next::clamps(keys, "swiglu_clamp_shexp", limit, n_layers)?;
    deepseek32::indexer_keys(hparams, keys)?;
    keys.needed("attention.output_group_count", hparams, &["o_groups"])?;
    keys.needed("attention.output_lora_rank", hparams, &["o_lora_rank"])?;
    if hparams.get("compress_ratios").is_none() {
        return Err(missing("compress_ratios"));
    }
    keys.counts("attention.compress_ratios", hparams, &["compress_ratios"])?;
    keys.needed_number("attention.compress_rope_freq_base", hparams, &["compress_rope_theta"])?;
    keys.needed("hyper_connection.count", hparams, &["hc_mult"])?;
    keys.needed("hyper_connection.sinkhorn_iterations", hparams, &["hc_sinkhorn_iters"])?;
    keys.needed_number("hyper_connection.epsilon", hparams, &["hc_eps"])?;
    keys.needed("hash_layer_count", hparams, &["num_hash_layers"])
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    shared_keys(hparams, keys)?;
    let streams = hparams.need_u64(&["hc_mult"])?;
    // All streams side by side: hc_mult * hidden_size.
    let width = hparams.need_u64(&["hidden_size"])?.saturating_mul(streams);
    keys.set_derived("embedding_length_out", "hidden_size", width)
}
