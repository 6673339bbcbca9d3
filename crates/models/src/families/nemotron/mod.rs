//! Nemotron, by NVIDIA.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[
        convert::nemotron::NEMOTRON,
        convert::nemotron_h::NEMOTRON_H,
        convert::nemotron_h::NEMOTRON_H_MOE,
        convert::nemotron_h::NEMOTRON_H_PUZZLE,
    ],
    projectors: &[projector::NEMOTRON_NANO_VL],
    graphs: graph::GRAPHS,
    departures: &[convert::nemotron::ROTATED],
    ..Family::EMPTY
};
