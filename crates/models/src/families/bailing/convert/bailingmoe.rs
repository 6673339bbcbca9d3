//! Ling 1: Bailing's first mixture of experts.
//!
//! Config keys: those of every text model, rotated dimensions, leading dense layers, experts.
//!
//! Transforms: Q, K and V come apart, with the permutation of llama; experts become one tensor. A
//! head whose rows are normalized when it is used (`norm_head`) is refused: that needs the entire
//! matrix at once.
//!
//! Source: `BailingMoeModel` in `conversion/bailingmoe.py`.

use crate::prelude::*;

pub const BAILINGMOE: Arch = Arch {
    name: "bailingmoe",
    classes: &[Class::new("BailingMoeForCausalLM")],
    example: "inclusionAI/Ling-lite",
    tensors: &[
        ENDS,
        rules::PRE_NORMS,
        ATTENTION,
        rules::QWEN_EXPERTS,
        &rules::shared_experts(Need::If(|hparams, _| hparams.get("num_shared_experts").is_some())),
    ],
    keys,
    prepare: |hparams, _| match hparams.get("norm_head") {
        // The reference would divide each row of the output by its length (`F.normalize`). No published
        // checkpoint sets the flag.
        Some(flag) if hparams.is_true("norm_head") => Err(bad("norm_head", flag, "false")),
        _ => Ok(hparams),
    },
    ..DECODER
};

/// Embedding, last norm and output.
pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.word_embeddings"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const ATTENTION: &[TensorRule] = &[
    TensorRule::part(&["model.layers.{bid}.attention.query_key_value"], "blk.{bid}.attn_q", |hparams, _| {
        part(hparams, 0)
    }),
    TensorRule::part(&["model.layers.{bid}.attention.query_key_value"], "blk.{bid}.attn_k", |hparams, _| {
        part(hparams, 1)
    }),
    TensorRule::part(&["model.layers.{bid}.attention.query_key_value"], "blk.{bid}.attn_v", |hparams, _| {
        part(hparams, 2)
    }),
    TensorRule::copy(&["model.layers.{bid}.attention.dense"], "blk.{bid}.attn_output"),
];

/// Rows of Q (0), K (1) or V (2).
fn part(hparams: &Hparams, part: usize) -> Result<RowMap, ArchError> {
    let head_dim = hparams.head_dim()?;
    let (heads, kv_heads) = (hparams.n_heads()?, hparams.n_kv_heads()?);
    // query_key_value is one group:  [Q: heads d | K: kv_heads d | V: kv_heads d] rows, d = head_dim.
    let (q, kv) = (heads.saturating_mul(head_dim), kv_heads.saturating_mul(head_dim));
    let group = q.saturating_add(kv).saturating_add(kv);
    let (start, rows, n_head) = [(0, q, heads), (q, kv, kv_heads), (q.saturating_add(kv), kv, 0)][part];
    Ok(RowMap::Groups { group, start, rows, n_head })
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // Complete heads are rotated.
    keys.set_derived("rope.dimension_count", "head_dim", hparams.head_dim()?)?;
    keys.needed("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    keys.vocab_size(hparams)?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // The config has no such scale; llama.cpp multiplies by the key all the same.
    keys.set_prefixed("expert_weights_scale", Value::F32(1.0));
    keys.needed("expert_shared_count", hparams, &["num_shared_experts"])?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    Ok(())
}
