//! Command R, Command R+ and Aya 23.
//!
//! Config keys: those of every text model; the context length is `model_max_length` if the file
//! has it; `logit_scale`.
//!
//! Transforms: there is one norm a layer.
//!
//! Source: `CommandR2Model` in `conversion/command_r.py`.

use crate::prelude::*;

pub const COMMAND_R: Arch = Arch {
    name: "command-r",
    classes: &[Class::new("CohereForCausalLM")],
    example: "CohereLabs/c4ai-command-r-v01",
    configs: &[ConfigClass::new("cohere")],
    tensors: &[rules::DECODER_ENDS, NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    ..DECODER
};

/// Norms of queries and keys are in Command R+ only.
const NORMS: &[TensorRule] = &[
    // Attention and the feed-forward part run side by side on it.
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm").need(NORMED),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm").need(NORMED),
];

const NORMED: Need = Need::If(|hparams, _| hparams.is_true("use_qk_norm"));

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Command R was trained for 8192 positions (`max_position_embeddings`) and serves 131072
    // (`model_max_length`).
    let length = hparams.need_u64(&["model_max_length", "max_position_embeddings"])?;
    text_keys(&hparams.with("max_position_embeddings", length.into()), keys)?;
    keys.needed_number("logit_scale", hparams, &["logit_scale"])?;
    keys.unscaled_by_default();
    Ok(())
}
