//! Nemotron, by NVIDIA.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[
        convert::nemotron::NEMOTRON,
        convert::nemotron_h::NEMOTRON_H,
        convert::nemotron_h::NEMOTRON_H_MOE,
        convert::nemotron_h::NEMOTRON_H_PUZZLE,
    ],
    ..Family::EMPTY
};
