//! InternLM, by Shanghai AI Laboratory.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::internlm2::INTERNLM2, convert::internlm3::INTERNLM3],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
