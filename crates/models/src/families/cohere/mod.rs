//! Command R, Command A and Aya, by Cohere.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::command_r::COMMAND_R, convert::cohere2::COHERE2, convert::cohere2moe::COHERE2MOE],
    graphs: graph::GRAPHS,
    projectors: &[projector::COHERE2_VISION],
    ..Family::EMPTY
};
