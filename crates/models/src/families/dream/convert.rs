//! Dream, a diffusion model.
//!
//! Config keys: those of every text model, that tokens see both ways, the mask.
//!
//! Source: `DreamModel` in `conversion/dream.py`.

use crate::prelude::*;

pub const DREAM: Arch = Arch {
    name: "dream",
    classes: &[Class::new("DreamModel")],
    example: "Dream-org/Dream-v0-Instruct-7B",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    harmless: &["hidden_act=silu"],
    from_file: |file, config| set(config, "mask_token_id", file.token_id("mask")),
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    pooling::keys(hparams, keys)?;
    // All tokens are made at once, so each sees the others.
    keys.set_prefixed("attention.causal", Value::Bool(false));
    if let Some(id) = hparams.get("mask_token_id") {
        keys.set(token_keys::MASK_ID, Value::U32(to_u32("mask_token_id", id)?));
    }
    Ok(())
}
