//! Falcon, by TII.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;
use gguf_layout::Quantization;

pub const FAMILY: Family = Family {
    arches: &[convert::falcon::FALCON, convert::falcon_h1::FALCON_H1],
    quantization: &[Quantization { architecture: "falcon", has_own_rules: true, ..Quantization::USUAL }],
    graphs: graph::GRAPHS,
    forms: FORMS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] =
    &[FamilyForm::refused(&["falcon_h1"], None, "the multipliers of the config are in its weights")];
