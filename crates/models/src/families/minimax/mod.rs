//! MiniMax: text, and images in MiniMax M3.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[convert::minimax_m2::MINIMAX_M2, convert::minimax_m3::MINIMAX_M3],
    projectors: &[projector::MINIMAXM3],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
