//! Muse Glimmer, by Meta.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[convert::MUSE_GLIMMER],
    projectors: &[projector::MUSE_GLIMMER],
    forms: FORMS,
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(&["muse_spark"], None, "its projections are joined")];
