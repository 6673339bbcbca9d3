//! RND1, a diffusion model: Qwen 3's mixture of experts that sees both ways.
//!
//! Config keys: those of Qwen's mixtures, that tokens see both ways, the mask.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `RND1Model` in `conversion/qwen.py`.

use crate::families::qwen::convert::qwen2moe;
use crate::prelude::*;

pub const RND1: Arch = Arch {
    name: "rnd1",
    classes: &[Class::new("RND1")],
    example: "radicalnumerics/RND1-Base-0910",
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
    ],
    keys: |hparams, keys| {
        qwen2moe::keys(hparams, keys)?;
        // A diffusion model fills masked tokens, from those on both sides.
        keys.set_prefixed("attention.causal", Value::Bool(false));
        if let Some(id) = hparams.get("mask_token_id") {
            keys.set(token_keys::MASK_ID, Value::U32(to_u32("mask_token_id", id)?));
        }
        Ok(())
    },
    harmless: &["norm_topk_prob=true"],
    from_file: |file, config| set(config, "mask_token_id", file.token_id("mask")),
    built_in: &[NORMALIZES_EXPERTS],
    ..DECODER
};
