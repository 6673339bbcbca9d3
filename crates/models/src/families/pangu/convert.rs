//! openPangu Embedded.
//!
//! Config keys: those of llama; the lengths of heads, which follow from the width if the config does not say them.
//!
//! Transforms: an output that is tied is left out.
//!
//! Source: `PanguEmbeddedModel` in `conversion/pangu.py`.

use crate::families::ernie::convert::ernie4_5;
use crate::families::llama::convert::llama;
use crate::parts::latent::drop_tied;
use crate::prelude::*;

pub const PANGU: Arch = Arch {
    name: "pangu-embedded",
    classes: &[Class::new("PanguEmbeddedForCausalLM")],
    example: "FreedomIntelligence/openPangu-Embedded-7B-V1.1",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys: |hparams, keys| {
        llama::keys(hparams, keys)?;
        // Here a head is its share of the width: width / heads.
        if hparams.get("head_dim").is_none() {
            keys.set_derived("attention.key_length", "head_dim", hparams.head_dim()?)?;
            keys.set_derived("attention.value_length", "head_dim", hparams.head_dim()?)?;
        }
        Ok(())
    },
    drops: drop_tied,
    vocab: ernie4_5::ROUTE,
    ..DECODER
};
