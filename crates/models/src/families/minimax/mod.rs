//! MiniMax: text, and images in MiniMax M3.

pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::family::Family;
use gguf_checkpoint::FamilyForm;

pub const FAMILY: Family = Family {
    arches: &[
        convert::minimax::MINIMAX,
        convert::minimax_01::MINIMAX_01,
        convert::minimax_m2::MINIMAX_M2,
        convert::minimax_m3::MINIMAX_M3,
    ],
    projectors: &[projector::MINIMAXM3],
    graphs: graph::GRAPHS,
    forms: FORMS,
    towers: vision::TOWERS,
    ..Family::EMPTY
};

/// Files of mlx-lm 0.32.2.
const FORMS: &[FamilyForm] = &[FamilyForm::refused(&["minimax_m3_vl"], None, "its projections are joined")];
