//! MiMo V2, by Xiaomi.

pub mod convert;
pub mod graph;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::MIMO2],
    projectors: &[projector::MIMO2],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
