//! RWKV 6 (Finch) and its hybrid with Qwen 2.
//!
//! Config keys: in their own order; the context is a million, and there are no heads.
//!
//! Transforms: low-rank factors are stored transposed; five vectors that mix a token with the previous one
//! become one tensor; output matrices of later layers are repeatedly divided by two if the config requests
//! rescaling. The hybrid has the five parts of its mixing factors in another order.
//!
//! Source: `Rwkv6Model` and `RWKV6Qwen2Model` in `conversion/rwkv.py`.

use crate::families::rwkv::convert::rwkv::{ENDS, NORMS};
use crate::prelude::*;

/// The row of RWKV 6.
pub const RWKV6: Arch = Arch {
    name: "rwkv6",
    classes: &[Class::new("Rwkv6ForCausalLM")],
    example: "RWKV/v6-Finch-1B6-HF",
    needs: &["hidden_size", "num_hidden_layers", "head_size"],
    tensors: &[ENDS, NORMS, TIME_MIX, CHANNEL_MIX],
    keys,
    vocab: ROUTE,
    ..DECODER
};

/// The world vocabulary.
pub const ROUTE: Route = Route::new("rwkv_world", |writer| writer.world());

pub const RWKV6QWEN2: Arch = Arch {
    name: "rwkv6qwen2",
    classes: &[Class::new("RWKV6Qwen2ForCausalLM")],
    example: "recursal/QRWKV6-32B-Instruct-Preview-v0.1",
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, HYBRID_TIME_MIX, rules::GATED_MLP],
    keys: hybrid_keys,
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    ..DECODER
};

const TIME_MIX: &[TensorRule] = &[
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.time_maa_x"], "blk.{bid}.time_mix_lerp_x")
        .bare(".weight")
        .shape(rules::SQUEEZE_VECTOR),
    TensorRule::copy(
        &[
            "rwkv.blocks.{bid}.attention.time_maa_w",
            "rwkv.blocks.{bid}.attention.time_maa_k",
            "rwkv.blocks.{bid}.attention.time_maa_v",
            "rwkv.blocks.{bid}.attention.time_maa_r",
            "rwkv.blocks.{bid}.attention.time_maa_g",
        ],
        "blk.{bid}.time_mix_lerp_fused",
    )
    .bare(".weight")
    .rows(RowRule::Fuse(|_| 5))
    .shape(LAYER_OF_ONES),
    TensorRule::columns(&["rwkv.blocks.{bid}.attention.time_maa_w1"], "blk.{bid}.time_mix_w1")
        .bare(".weight"),
    TensorRule::columns(&["rwkv.blocks.{bid}.attention.time_maa_w2"], "blk.{bid}.time_mix_w2")
        .bare(".weight"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.time_faaaa"], "blk.{bid}.time_mix_first").bare(".weight"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.time_decay"], "blk.{bid}.time_mix_decay")
        .bare(".weight")
        .shape(rules::SQUEEZE_VECTOR),
    TensorRule::columns(&["rwkv.blocks.{bid}.attention.time_decay_w1"], "blk.{bid}.time_mix_decay_w1")
        .bare(".weight"),
    TensorRule::columns(&["rwkv.blocks.{bid}.attention.time_decay_w2"], "blk.{bid}.time_mix_decay_w2")
        .bare(".weight"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.receptance"], "blk.{bid}.time_mix_receptance"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.key"], "blk.{bid}.time_mix_key"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.value"], "blk.{bid}.time_mix_value"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.gate"], "blk.{bid}.time_mix_gate"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.output"], "blk.{bid}.time_mix_output")
        .element_of(rescaled),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.ln_x"], "blk.{bid}.time_mix_ln"),
];

const CHANNEL_MIX: &[TensorRule] = &[
    TensorRule::copy(&["rwkv.blocks.{bid}.feed_forward.time_maa_k"], "blk.{bid}.channel_mix_lerp_k")
        .bare(".weight")
        .shape(rules::SQUEEZE_VECTOR),
    TensorRule::copy(&["rwkv.blocks.{bid}.feed_forward.time_maa_r"], "blk.{bid}.channel_mix_lerp_r")
        .bare(".weight")
        .shape(rules::SQUEEZE_VECTOR),
    TensorRule::copy(&["rwkv.blocks.{bid}.feed_forward.key"], "blk.{bid}.channel_mix_key"),
    TensorRule::copy(&["rwkv.blocks.{bid}.feed_forward.receptance"], "blk.{bid}.channel_mix_receptance"),
    TensorRule::copy(&["rwkv.blocks.{bid}.feed_forward.value"], "blk.{bid}.channel_mix_value")
        .element_of(rescaled),
];

/// Order of the five parts of the factors (receptance, key, value, decay, gate).
const PARTS: &[u64] = &[3, 1, 2, 0, 4];

const HYBRID_TIME_MIX: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.time_maa_x"], "blk.{bid}.time_mix_lerp_x")
        .bare(".weight")
        .shape(rules::SQUEEZE_VECTOR),
    TensorRule::copy(
        &[
            "model.layers.{bid}.self_attn.time_maa_w",
            "model.layers.{bid}.self_attn.time_maa_k",
            "model.layers.{bid}.self_attn.time_maa_v",
            "model.layers.{bid}.self_attn.time_maa_r",
            "model.layers.{bid}.self_attn.time_maa_g",
        ],
        "blk.{bid}.time_mix_lerp_fused",
    )
    .bare(".weight")
    .rows(RowRule::Fuse(|_| 5))
    .shape(LAYER_OF_ONES),
    TensorRule::columns(&["model.layers.{bid}.self_attn.time_maa_w1"], "blk.{bid}.time_mix_w1")
        .bare(".weight")
        .rows(RowRule::Columns(RowMap::Chunks { order: PARTS })),
    TensorRule::columns(&["model.layers.{bid}.self_attn.time_maa_w2"], "blk.{bid}.time_mix_w2")
        .bare(".weight")
        .rows(RowRule::Columns(RowMap::Chunks { order: PARTS })),
    TensorRule::copy(&["model.layers.{bid}.self_attn.time_decay"], "blk.{bid}.time_mix_decay")
        .bare(".weight")
        .shape(rules::SQUEEZE_VECTOR),
    TensorRule::columns(&["model.layers.{bid}.self_attn.time_decay_w1"], "blk.{bid}.time_mix_decay_w1")
        .bare(".weight"),
    TensorRule::columns(&["model.layers.{bid}.self_attn.time_decay_w2"], "blk.{bid}.time_mix_decay_w2")
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.time_mix_receptance"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.time_mix_key"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.time_mix_value"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.gate"], "blk.{bid}.time_mix_gate"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.time_mix_output"),
];

/// A vector as one of several that are stacked with two dimensions of one between.
const LAYER_OF_ONES: Reshape = Reshape {
    forward: |_, dims| Ok(vec![dims.iter().product(), 1, 1]),
    // As in a checkpoint, with the dimensions of one there.
    inverse: <[u64]>::to_vec,
};

/// Divided by two once more after every N layers.
fn rescaled(hparams: &Hparams, layer: u64, _: &str) -> Result<ElementMap, ArchError> {
    // In half precision activations would overflow: weights of layer l are divided by 2^(l / every),
    // and the graph halves activations as often.
    let every = hparams.get("rescale_every").and_then(Json::as_u64).unwrap_or(0);
    match layer.checked_div(every) {
        None | Some(0) => Ok(ElementMap::Identity),
        Some(times) => Ok(ElementMap::Scale([0.5f32.powi(times.min(200) as i32), 1.0])),
    }
}

/// The context that the reference writes for models without a limit.
pub fn endless(keys: &mut Keys) -> Result<(), ArchError> {
    keys.set_derived("context_length", "", 1 << 20)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["hidden_size"])?;
    let forward = match hparams.get_u64("intermediate_size")? {
        Some(length) => length,
        // `int((hidden_size * 3.5) // 32 * 32)`
        None => ((width as f64 * 3.5) as u64) / 32 * 32,
    };
    // Only the 7B model has larger low-rank factors; the config does not state them.
    let large = width == 4096;
    endless(keys)?;
    keys.set_derived("embedding_length", "hidden_size", width)?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.needed("rescale_every_n_layers", hparams, &["rescale_every"])?;
    keys.needed("wkv.head_size", hparams, &["head_size"])?;
    keys.set_derived("time_mix_extra_dim", "", if large { 64 } else { 32 })?;
    keys.set_derived("time_decay_extra_dim", "", if large { 128 } else { 64 })?;
    keys.set_derived("feed_forward_length", "intermediate_size", forward)?;
    keys.file_type_here();
    keys.set_derived("attention.head_count", "", 0)
}

fn hybrid_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.derived_from("wkv.head_size", &["num_attention_heads"]);
    let width = hparams.need_u64(&["hidden_size"])?;
    // As in RWKV 6, for configs that do not state the ranks.
    let large = width >= 4096;
    let rank = |key, large_rank, rank| {
        Ok::<_, ArchError>(hparams.get_u64(key)?.unwrap_or(if large { large_rank } else { rank }))
    };
    let heads = hparams.need_u64(&["num_attention_heads"])?;
    let head = width
        .checked_div(heads)
        .ok_or_else(|| bad("num_attention_heads", &0.into(), "an integer above 0"))?;
    endless(keys)?;
    keys.set_derived("embedding_length", "hidden_size", width)?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.set_derived("wkv.head_size", "num_attention_heads", head)?;
    keys.set_derived("time_mix_extra_dim", "lora_rank_tokenshift", rank("lora_rank_tokenshift", 64, 32)?)?;
    keys.set_derived("time_decay_extra_dim", "lora_rank_decay", rank("lora_rank_decay", 128, 64)?)?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.file_type_here();
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["rms_norm_eps"])?;
    // One shift: the hybrid has attention's token mixing without a channel mix.
    keys.set_derived("token_shift_count", "", 1)?;
    keys.needed("attention.head_count_kv", hparams, &["num_key_value_heads"])?;
    keys.set_derived("attention.head_count", "", 0)
}
