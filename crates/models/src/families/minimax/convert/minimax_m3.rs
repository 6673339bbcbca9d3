//! MiniMax M3, text part: a mixture of experts whose attention looks up blocks by an index.
//!
//! Config keys: those of MiniMax M2, shared experts, the index, leading dense layers.
//!
//! Transforms: experts become one tensor; norms are stored as their distance from one.
//!
//! Source: `MiniMaxM3Model` in `conversion/minimax.py`. It needs keys that transformers 5.23 takes out of a config
//! (`sparse_attention_config`), so files are read as they stand.

use crate::families::minimax::convert::minimax_m2::{self, MINIMAX_M2};
use crate::prelude::*;

pub const MINIMAX_M3: Arch = Arch {
    name: "minimax-m3",
    classes: &[
        Class::new("MiniMaxM3SparseForConditionalGeneration"),
        Class::new("MiniMaxM3SparseForCausalLM"),
        Class::new("MiniMaxM3VLForCausalLM"),
    ],
    example: "MiniMaxAI/MiniMax-M3",
    configs: &[],
    raw_config: true,
    tensors: &[
        rules::NORM1P_ENDS,
        LAYERS,
        rules::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        EXPERTS,
    ],
    keys,
    from_file,
    harmless: &["hidden_act=silu", "layer_types", "swiglu_alpha=1.702", "swiglu_limit=7.0"],
    built_in: &[BuiltIn::unless("rotary_dim", "it, not with `partial_rotary_factor`", is_rotated_part)],
    ..MINIMAX_M2
};

const LAYERS: &[TensorRule] = &[
    // w = w + 1: the checkpoint contains the distance from one, here and in each `norm1p` below.
    TensorRule::norm1p(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm"),
    // Layers with full attention have no index.
    TensorRule::copy(&["model.layers.{bid}.self_attn.index_q_proj"], "blk.{bid}.indexer.q_proj")
        .float(FloatType::F32)
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.self_attn.index_k_proj"], "blk.{bid}.indexer.k_proj")
        .float(FloatType::F32)
        .need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.index_q_norm"], "blk.{bid}.indexer.q_norm")
        .need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.index_k_norm"], "blk.{bid}.indexer.k_norm")
        .need(Need::Optional),
];

const IS_MIXTURE: Need = Need::If(is_mixture);

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.gate"], "blk.{bid}.ffn_gate_inp")
        .need(IS_MIXTURE),
    // Bias that is added to the experts' scores before the choice.
    minimax_m2::CORRECTION,
    // w1 is gate, w2 down, w3 up.
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w1"], "blk.{bid}.ffn_gate_exps")
        .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w2"], "blk.{bid}.ffn_down_exps")
        .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w3"], "blk.{bid}.ffn_up_exps")
        .need(IS_MIXTURE),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.gate_proj"],
        "blk.{bid}.ffn_gate_shexp",
    )
    .need(IS_MIXTURE),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.up_proj"],
        "blk.{bid}.ffn_up_shexp",
    )
    .need(IS_MIXTURE),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.down_proj"],
        "blk.{bid}.ffn_down_shexp",
    )
    .need(IS_MIXTURE),
];

/// True if the feed-forward part of a layer is a mixture; the Hub's files state 0 or 1, transformers' a word.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let of = |key| hparams.get(key).and_then(|list| list.get(usize::try_from(bid).ok()?));
    match (of("moe_layer_freq"), of("mlp_layer_types")) {
        (Some(flag), _) => *flag != 0,
        (None, Some(kind)) => kind == "sparse",
        (None, None) => true,
    }
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    minimax_m2::keys(hparams, keys)?;
    let shared = hparams.get_u64("n_shared_experts")?.unwrap_or(1);
    keys.set_derived("expert_shared_count", "n_shared_experts", shared)?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.set_prefixed("expert_weights_norm", Value::Bool(true));
    // The names of the Hub's files, of transformers', and of this file.
    let sparse = hparams.get("sparse_attention_config");
    for (inner, flat, key) in [
        ("sparse_num_index_heads", "index_n_heads", "head_count"),
        ("sparse_index_dim", "index_head_dim", "key_length"),
        ("sparse_topk_blocks", "index_topk_blocks", "top_k"),
        ("sparse_block_size", "index_block_size", "block_size"),
        ("sparse_local_block", "index_local_blocks", "local_blocks"),
    ] {
        let key = format!("attention.indexer.{key}");
        let value = sparse.and_then(|sparse| sparse.get(inner)).or(hparams.get(flat));
        let count = value.and_then(Json::as_u64).ok_or_else(|| missing(flat))?;
        keys.set_derived(&key, flat, count)?;
    }
    let n_layers = hparams.n_layers()?.min(10_000);
    // Dense layers up to the first mixture: the key knows no others.
    let dense = (0..n_layers).take_while(|bid| !is_mixture(hparams, *bid)).count();
    keys.derived_from("leading_dense_block_count", &["moe_layer_freq"]);
    keys.set_prefixed("leading_dense_block_count", Value::U32(to_u32("moe_layer_freq", &dense.into())?));
    Ok(())
}

/// Returns true if `rotary_dim` is the part of a head that transformers rotates: `rope_parameters.partial_rotary_factor`.
fn is_rotated_part(hparams: &Hparams, rotated: &Json) -> bool {
    let part = hparams.head_dim().and_then(|head| hparams.rotated(head, Some(1.0)));
    part.is_ok_and(|part| rotated.as_u64() == Some(part))
}

/// Mixture layers, and the sizes of the indexer, in the spelling of the Hub's files.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let mixtures = file.layers_with("ffn_gate_inp.weight");
    config.insert("moe_layer_freq".into(), mixtures.iter().map(|is| u64::from(*is)).collect());
    let indexer = |key: &str| file.count(&format!("attention.indexer.{key}"));
    let sparse = json!({
        "sparse_num_index_heads": indexer("head_count"),
        "sparse_index_dim": indexer("key_length"),
        "sparse_topk_blocks": indexer("top_k"),
        "sparse_block_size": indexer("block_size"),
        "sparse_local_block": indexer("local_blocks"),
    });
    config.insert("sparse_attention_config".into(), sparse);
    for (name, key) in [
        ("dense_intermediate_size", "feed_forward_length"),
        ("intermediate_size", "expert_feed_forward_length"),
        ("n_shared_experts", "expert_shared_count"),
        ("rotary_dim", "rope.dimension_count"),
    ] {
        set(config, name, file.count(key));
    }
    let factor = file.number("expert_weights_scale");
    config.extend(factor.map(|factor| ("routed_scaling_factor".to_owned(), factor.into())));
}
