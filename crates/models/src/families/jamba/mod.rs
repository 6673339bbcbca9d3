//! Jamba, by AI21: a hybrid of state-space and attention layers.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::JAMBA], graphs: graph::GRAPHS, ..Family::EMPTY };
