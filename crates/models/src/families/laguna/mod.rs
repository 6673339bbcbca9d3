//! Laguna, by Poolside.

pub mod convert;
pub mod graph;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family =
    Family { arches: &[convert::LAGUNA], graphs: graph::GRAPHS, forms: FORMS, ..Family::EMPTY };

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm {
    model_types: &["laguna"],
    mlx_names: &[
        (".mlp.gate.proj.", ".mlp.gate."),
        (".mlp.gate.e_score_correction_bias", ".mlp.experts.e_score_correction_bias"),
    ],
    ..FamilyForm::USUAL
}];
