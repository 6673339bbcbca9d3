//! Maincoder.
//!
//! Config keys: those of every text model, the rotated dimensions if the config has the length of a head.
//!
//! Source: `MaincoderModel` in `conversion/maincoder.py`.

use crate::prelude::*;

pub const MAINCODER: Arch = Arch {
    name: "maincoder",
    classes: &[Class::new("MaincoderForCausalLM")],
    example: "Maincode/Maincoder-1B",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    keys: |hparams, keys| {
        text_keys(hparams, keys)?;
        // A complete head rotates.
        keys.count("rope.dimension_count", hparams, &["head_dim"])
    },
    ..DECODER
};
