//! PLaMo, by Preferred Networks.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::plamo::PLAMO, convert::plamo2::PLAMO2, convert::plamo3::PLAMO3],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
