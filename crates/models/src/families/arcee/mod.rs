//! AFM, by Arcee.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::ARCEE], graphs: graph::GRAPHS, ..Family::EMPTY };
