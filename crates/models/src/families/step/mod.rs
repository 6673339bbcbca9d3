//! Step 3.5 and 3.7, by StepFun.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[convert::STEP35],
    projectors: &[projector::STEP3VL],
    graphs: graph::GRAPHS,
    forms: FORMS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] =
    &[FamilyForm::refused(&["step3p5"], Some(".switch_mlp."), "its norms are stored as w + 1")];
