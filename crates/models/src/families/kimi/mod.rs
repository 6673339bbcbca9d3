//! Kimi, by Moonshot: text, and images in Kimi VL and K2.5.

pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[convert::kimi_k3::KIMI_K3, convert::kimi_linear::KIMI_LINEAR],
    projectors: &[projector::kimik25::KIMIK25, projector::kimivl::KIMIVL],
    graphs: graph::GRAPHS,
    forms: FORMS,
    towers: vision::TOWERS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] =
    &[FamilyForm::refused(&["kimi_k3", "kimi_linear"], None, "its projections are joined and transposed")];
