//! Baichuan 1 and 2.
//!
//! Config keys: those of every text model, the layout of the tensors, the rotated dimensions.
//!
//! Transforms: Q, K and V are one matrix in thirds; they are split, and rows of Q and K are permuted like in
//! llama. (The reference recurses endlessly on every other tensor; its base class has the intended behavior.)
//!
//! Source: `BaichuanModel` in `conversion/baichuan.py`.

use crate::prelude::*;

pub const BAICHUAN: Arch = Arch {
    name: "baichuan",
    classes: &[Class::new("BaichuanForCausalLM"), Class::new("BaiChuanForCausalLM")],
    example: "baichuan-inc/Baichuan2-7B-Chat",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, ATTENTION, rules::GATED_MLP],
    keys,
    vocab: Route::SENTENCE_PIECE,
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    TensorRule::part(&["model.layers.{bid}.self_attn.W_pack"], "blk.{bid}.attn_q", |hparams, shape| {
        Ok(third(shape, 0, hparams.n_heads()?))
    }),
    TensorRule::part(&["model.layers.{bid}.self_attn.W_pack"], "blk.{bid}.attn_k", |hparams, shape| {
        Ok(third(shape, 1, key_heads(hparams)?))
    }),
    TensorRule::part(&["model.layers.{bid}.self_attn.W_pack"], "blk.{bid}.attn_v", |_, shape| {
        Ok(third(shape, 2, 0))
    }),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

fn third(shape: &Shape, part: u64, n_head: u64) -> RowMap {
    // W_pack (width, 3 width) stacks Q, K, V:  rows 0 .. w, w .. 2w, 2w .. 3w.
    // The reference takes thirds as well (`_reverse_hf_part`), whatever the number of key heads.
    let rows = shape.n_rows() / 3;
    RowMap::Groups { group: rows * 3, start: rows * part, rows, n_head }
}

/// Groups that rows of K are permuted in. Files do not state key heads apart; where one does,
/// the reference divides by them.
pub fn key_heads(hparams: &Hparams) -> Result<u64, ArchError> {
    let heads = hparams.n_heads()?;
    Ok(match hparams.get_u64("num_key_value_heads")? {
        // `_reverse_hf_permute` does `n_head //= n_kv_head` if they differ: kept, though it is one
        // division too many for grouped heads.
        Some(kv_heads) if kv_heads != heads => heads.checked_div(kv_heads).unwrap_or(heads),
        _ => heads,
    })
}

/// Keys of every text model, the layout of the tensors and the rotated dimensions.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // After the keys of every text model, as `set_gguf_parameters` calls its parent first.
    keys.set_prefixed("tensor_data_layout", "Meta AI original pth".into());
    keys.set_derived("rope.dimension_count", "hidden_size", hparams.head_share()?)
}
