//! RWKV 4. The reference has no converter for it, and llama.cpp does not run it; keys are those of the
//! GGUF specification and the epsilon of the norms, names of tensors those that the reference has for
//! the same parts of RWKV 6.
//!
//! Config keys: those of the specification, as 32-bit integers like all counts that gguf-py writes.
//!
//! Transforms: none but of shapes; vectors lose their dimensions of one.
//!
//! Source: the section on RWKV of the GGUF specification; `TensorNameMap` in
//! `gguf-py/gguf/tensor_mapping.py`.

use crate::prelude::*;

pub const RWKV: Arch = Arch {
    name: "rwkv",
    classes: &[Class::new("RwkvForCausalLM")],
    example: "RWKV/rwkv-4-169m-pile",
    configs: &[ConfigClass::new("rwkv")],
    needs: &["hidden_size", "num_hidden_layers", "vocab_size"],
    tensors: &[ENDS, NORMS, TIME_MIX, CHANNEL_MIX],
    keys,
    ..DECODER
};

/// Embedding with its norm, last norm and output.
pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["rwkv.embeddings"], "token_embd"),
    // The norm of the first block that comes before all others: that of the embedding.
    TensorRule::copy(&["rwkv.blocks.0.pre_ln"], "token_embd_norm"),
    TensorRule::copy(&["rwkv.ln_out"], "output_norm"),
    TensorRule::copy(&["head"], "output"),
];

/// Norms of a block.
pub const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["rwkv.blocks.{bid}.ln1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["rwkv.blocks.{bid}.ln2"], "blk.{bid}.attn_norm_2"),
];

const TIME_MIX: &[TensorRule] = &[
    vector(&["rwkv.blocks.{bid}.attention.time_decay"], "blk.{bid}.time_mix_decay").shape(rules::SQUEEZE_ANY),
    vector(&["rwkv.blocks.{bid}.attention.time_first"], "blk.{bid}.time_mix_first").shape(rules::SQUEEZE_ANY),
    vector(&["rwkv.blocks.{bid}.attention.time_mix_key"], "blk.{bid}.time_mix_lerp_k"),
    vector(&["rwkv.blocks.{bid}.attention.time_mix_value"], "blk.{bid}.time_mix_lerp_v"),
    vector(&["rwkv.blocks.{bid}.attention.time_mix_receptance"], "blk.{bid}.time_mix_lerp_r"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.key"], "blk.{bid}.time_mix_key"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.value"], "blk.{bid}.time_mix_value"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.receptance"], "blk.{bid}.time_mix_receptance"),
    TensorRule::copy(&["rwkv.blocks.{bid}.attention.output"], "blk.{bid}.time_mix_output"),
];

const CHANNEL_MIX: &[TensorRule] = &[
    vector(&["rwkv.blocks.{bid}.feed_forward.time_mix_key"], "blk.{bid}.channel_mix_lerp_k"),
    vector(&["rwkv.blocks.{bid}.feed_forward.time_mix_receptance"], "blk.{bid}.channel_mix_lerp_r"),
    TensorRule::copy(&["rwkv.blocks.{bid}.feed_forward.key"], "blk.{bid}.channel_mix_key"),
    TensorRule::copy(&["rwkv.blocks.{bid}.feed_forward.receptance"], "blk.{bid}.channel_mix_receptance"),
    TensorRule::copy(&["rwkv.blocks.{bid}.feed_forward.value"], "blk.{bid}.channel_mix_value"),
];

/// A vector whose name has no ending, with two dimensions of one.
const fn vector(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".weight").shape(rules::SQUEEZE_VECTOR)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["hidden_size"])?;
    // `RwkvConfig`: four times the width if it is null.
    let forward = hparams.get_u64("intermediate_size")?.unwrap_or(width.saturating_mul(4));
    // The specification tells RWKV 4 from later ones by this number.
    keys.set_derived("architecture_version", "", 4)?;
    keys.needed("context_length", hparams, &["context_length"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.set_derived("embedding_length", "hidden_size", width)?;
    keys.set_derived("feed_forward_length", "intermediate_size", forward)?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.file_type_here();
    Ok(())
}
