//! PLaMo.
//!
//! Config keys: in their own order. The context length and the number of key heads are those of the only size, which its
//! config does not state.
//!
//! Transforms: the query heads of a group, which the checkpoint keeps apart by the number of the key heads, become
//! neighbors.
//!
//! Source: `PlamoModel` in `conversion/plamo.py`.

use crate::prelude::*;

pub const PLAMO: Arch = Arch {
    name: "plamo",
    classes: &[Class::new("PlamoForCausalLM")],
    example: "pfnet/plamo-13b",
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "rms_norm_eps"],
    tensors: &[rules::DECODER_ENDS, LAYERS],
    keys,
    drops: |_, name| {
        name.ends_with(".rotary_emb.inv_freq").then_some("the frequencies of the rotation are not weights")
    },
    vocab: Route::SENTENCE_PIECE,
    ..DECODER
};

/// Heads of the only size: 8 groups of 5 in the checkpoint, with 128 rows each.
const GROUPS: u64 = 8;
const KEY_HEADS: u64 = 5;
const HEAD: u64 = 128;
const WIDTH: u64 = GROUPS * KEY_HEADS * HEAD;

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.layers.{bid}.norm"], "blk.{bid}.attn_norm"),
    TensorRule::part(&["model.layers.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q", |_, shape| {
        square(shape)?;
        Ok(RowMap::TileHeads { start: 0, groups: GROUPS, per_group: KEY_HEADS, rows: HEAD })
    }),
    TensorRule::copy(&["model.layers.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["model.layers.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::part(&["model.layers.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output", |_, shape| {
        square(shape)?;
        Ok(RowMap::TileColumns { groups: GROUPS, per_group: KEY_HEADS, elems: HEAD })
    }),
    TensorRule::copy(&["model.layers.layers.{bid}.mlp.gate_proj"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["model.layers.layers.{bid}.mlp.up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down"),
];

/// The reference takes only matrices of the only size.
fn square(shape: &Shape) -> Result<(), ArchError> {
    match shape.dims() {
        [WIDTH, WIDTH] => Ok(()),
        _ => Err(bad("hidden_size", &format!("a matrix of {shape}").into(), "5120")),
    }
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.set_prefixed("context_length", Value::U32(4096));
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    keys.set_prefixed("attention.head_count_kv", Value::U32(KEY_HEADS as u32));
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["rms_norm_eps"])?;
    keys.file_type_here();
    Ok(())
}
