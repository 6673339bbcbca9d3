//! Trinity (AFMoE), by Arcee.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::AFMOE],
    graphs: graph::GRAPHS,
    departures: &[convert::NORM],
    ..Family::EMPTY
};
