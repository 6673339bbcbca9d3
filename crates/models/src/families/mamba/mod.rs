//! Mamba: state-space models without attention.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::mamba::MAMBA, convert::mamba2::MAMBA2],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
