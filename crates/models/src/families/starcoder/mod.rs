//! StarCoder, by BigCode.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::starcoder::STARCODER, convert::starcoder2::STARCODER2],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
