//! Ernie 4.5, dense.
//!
//! Config keys: those of every text model.
//!
//! Transforms: in Baidu's own spelling (`ernie.`), Q, K and V are one matrix, and up and gate
//! are, which are taken apart.
//!
//! Source: `Ernie4_5Model` in `conversion/ernie.py`.

use crate::prelude::*;

pub const ERNIE4_5: Arch = Arch {
    name: "ernie4_5",
    classes: &[Class::new("Ernie4_5_ForCausalLM"), Class::new("Ernie4_5ForCausalLM")],
    example: "baidu/ERNIE-4.5-0.3B-PT",
    configs: &[ConfigClass::new("ernie4_5")],
    tensors: &[ENDS, LAYERS, FUSED],
    keys: text_keys,
    vocab: ROUTE,
    ..DECODER
};

/// tokenizer.model, with `add_prefix_space` of tokenizer_config.json.
pub const ROUTE: Route = Route::new("ernie4_5", |writer| {
    writer.spm(SpmStyle::Plain)?;
    writer.add_prefix_space()
});

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens", "ernie.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm", "ernie.norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

macro_rules! names {
    ($name:literal) => {
        &[concat!("model.layers.{bid}.", $name), concat!("ernie.layers.{bid}.", $name)]
    };
}

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(names!("input_layernorm"), "blk.{bid}.attn_norm"),
    TensorRule::copy(names!("post_attention_layernorm"), "blk.{bid}.ffn_norm"),
    TensorRule::copy(names!("self_attn.q_proj"), "blk.{bid}.attn_q"),
    TensorRule::copy(names!("self_attn.k_proj"), "blk.{bid}.attn_k"),
    TensorRule::copy(names!("self_attn.v_proj"), "blk.{bid}.attn_v"),
    TensorRule::copy(names!("self_attn.o_proj"), "blk.{bid}.attn_output"),
    TensorRule::copy(names!("mlp.gate_proj"), "blk.{bid}.ffn_gate"),
    TensorRule::copy(names!("mlp.up_proj"), "blk.{bid}.ffn_up"),
    TensorRule::copy(names!("mlp.down_proj"), "blk.{bid}.ffn_down"),
];

const FUSED: &[TensorRule] = &[
    TensorRule::part(names!("self_attn.qkv_proj"), "blk.{bid}.attn_q", |hparams, _| part(hparams, 0)),
    TensorRule::part(names!("self_attn.qkv_proj"), "blk.{bid}.attn_k", |hparams, _| part(hparams, 1)),
    TensorRule::part(names!("self_attn.qkv_proj"), "blk.{bid}.attn_v", |hparams, _| part(hparams, 2)),
    TensorRule::part(names!("mlp.up_gate_proj"), "blk.{bid}.ffn_gate", rules::first_half),
    TensorRule::part(names!("mlp.up_gate_proj"), "blk.{bid}.ffn_up", rules::second_half),
];

/// Rows of Q (0), K (1) or V (2).
fn part(hparams: &Hparams, part: usize) -> Result<RowMap, ArchError> {
    let head_dim = hparams.head_dim()?;
    let rows = |heads: u64| heads.saturating_mul(head_dim);
    // qkv_proj:  [Q: heads d | K: kv_heads d | V: kv_heads d] rows, d = head_dim. Not permuted: Ernie rotates neighbours.
    let (q, kv) = (rows(hparams.n_heads()?), rows(hparams.n_kv_heads()?));
    // First row and number of rows of the part.
    let (start, rows) = [(0, q), (q, kv), (q.saturating_add(kv), kv)][part];
    Ok(RowMap::Groups { group: q.saturating_add(kv).saturating_add(kv), start, rows, n_head: 0 })
}
