//! Jais 2.
//!
//! Config keys: those of every text model, the rotated dimensions.
//!
//! Transforms: every projection and norm has a bias.
//!
//! Source: `Jais2Model` in `conversion/jais.py`.

use crate::prelude::*;

pub const JAIS2: Arch = Arch {
    name: "jais2",
    classes: &[Class::new("Jais2ForCausalLM")],
    example: "inceptionai/Jais-2-8B-Chat",
    configs: &[ConfigClass::new("jais2")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::UNGATED_MLP],
    keys: |hparams, keys| {
        text_keys(hparams, keys)?;
        // The entire head is rotated, 3328 / 26 = 128 by the defaults.
        keys.set_derived("rope.dimension_count", "head_dim", hparams.head_dim()?)
    },
    ..DECODER
};
