//! InternLM 2 and 2.5.
//!
//! Config keys: those of every text model.
//!
//! Transforms: Q, K and V are one matrix, for each key head its queries, then key, then value;
//! they are taken apart, and rows of Q and K are permuted like those of llama.
//!
//! Source: `InternLM2Model` in `conversion/internlm.py`.

use crate::prelude::*;

pub const INTERNLM2: Arch = Arch {
    name: "internlm2",
    classes: &[Class::new("InternLM2ForCausalLM")],
    example: "internlm/internlm2-chat-7b",
    tensors: &[TENSORS],
    vocab: Route::new("internlm2", |writer| writer.spm(SpmStyle::MergedWithTurnEnd)),
    ..DECODER
};

const TENSORS: &[TensorRule] = &[
    TensorRule::copy(&["model.tok_embeddings"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
    TensorRule::copy(&["output"], "output").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.attention_norm"], "blk.{bid}.attn_norm"),
    TensorRule::part(&["model.layers.{bid}.attention.wqkv"], "blk.{bid}.attn_q", |hparams, _| {
        part(hparams, 0)
    }),
    TensorRule::part(&["model.layers.{bid}.attention.wqkv"], "blk.{bid}.attn_k", |hparams, _| {
        part(hparams, 1)
    }),
    TensorRule::part(&["model.layers.{bid}.attention.wqkv"], "blk.{bid}.attn_v", |hparams, _| {
        part(hparams, 2)
    }),
    TensorRule::copy(&["model.layers.{bid}.attention.wo"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["model.layers.{bid}.ffn_norm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w1"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w2"], "blk.{bid}.ffn_down"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w3"], "blk.{bid}.ffn_up"),
];

/// Rows of Q (0), K (1) or V (2) of the groups, each of `n_heads / n_kv_heads + 2` heads.
fn part(hparams: &Hparams, part: usize) -> Result<RowMap, ArchError> {
    let (heads, kv_heads, head_dim) = (hparams.n_heads()?, hparams.n_kv_heads()?, hparams.head_share()?);
    let per_group = heads
        .checked_div(kv_heads)
        .ok_or_else(|| bad("num_key_value_heads", &0.into(), "an integer above 0"))?;
    let rows = |heads: u64| heads.saturating_mul(head_dim);
    // wqkv of one key head, with g = heads / kv_heads queries of d rows:  [q_1 .. q_g | k | v], (g + 2) d rows.
    let group = rows(per_group.saturating_add(2));
    let after_queries = rows(per_group);
    Ok(match part {
        // Queries and keys are then permuted by all heads of the tensor; values are not.
        0 => RowMap::Groups { group, start: 0, rows: after_queries, n_head: heads },
        1 => RowMap::Groups { group, start: after_queries, rows: head_dim, n_head: kv_heads },
        _ => {
            RowMap::Groups { group, start: after_queries.saturating_add(head_dim), rows: head_dim, n_head: 0 }
        }
    })
}
