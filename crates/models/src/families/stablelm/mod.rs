//! StableLM, by Stability AI.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::STABLELM], graphs: graph::GRAPHS, ..Family::EMPTY };
