//! Nemotron, by NVIDIA.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[
        convert::nemotron::NEMOTRON,
        convert::nemotron_h::NEMOTRON_H,
        convert::nemotron_h::NEMOTRON_H_MOE,
        convert::nemotron_h::NEMOTRON_H_PUZZLE,
    ],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
