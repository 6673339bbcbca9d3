//! Sarvam: a Bailing 2 that rotates entire heads.
//!
//! Config keys: those of Bailing 2, with other rotated dimensions.
//!
//! Transforms: those of Bailing 2; the bias of the experts is centered.
//!
//! Source: `SarvamMoEModel` in `conversion/bailingmoe.py`.

use crate::families::bailing::convert::bailingmoe2::{self, BAILINGMOE2};
use crate::prelude::*;

pub const SARVAM: Arch = Arch {
    name: "sarvam-moe",
    written: Some("bailingmoe2"),
    classes: &[
        Class::new("SarvamMoEForCausalLM"),
        Class::new("modeling_sarvam_moe.SarvamMoEForCausalLM"),
        // transformers 5 runs it with GLM's classes. It renames config keys, but saves weights under their own names.
        Class::new("Glm4MoeForCausalLM"),
    ],
    fits: Some(|input| input.config.get("model_type").is_some_and(|kind| kind == "sarvam_moe")),
    example: "sarvamai/sarvam-30b",
    configs: &[ConfigClass::new("sarvam_moe")],
    raw_config: true,
    tensors: bailingmoe2::CENTERED,
    keys: |hparams, keys| bailingmoe2::keys_of(hparams, keys, hparams.head_dim()?),
    export: Export::NotExportable("exported as Bailing 2, whose files have the same tensors"),
    ..BAILINGMOE2
};
