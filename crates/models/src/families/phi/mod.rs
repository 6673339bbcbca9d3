//! Phi, by Microsoft.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::phi2::PHI2, convert::phi3::PHI3, convert::phimoe::PHIMOE],
    projectors: &[projector::PHI4],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
