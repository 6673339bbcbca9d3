//! CogVLM, by THUDM: text and images.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::COGVLM],
    projectors: &[projector::COGVLM],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
