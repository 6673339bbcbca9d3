//! Ernie 4.5, by Baidu.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::ernie4_5::ERNIE4_5, convert::ernie4_5_moe::ERNIE4_5_MOE],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
