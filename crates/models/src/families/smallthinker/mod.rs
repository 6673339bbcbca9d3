//! SmallThinker, by PowerInfer.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family =
    Family { arches: &[convert::SMALLTHINKER], graphs: graph::GRAPHS, ..Family::EMPTY };
