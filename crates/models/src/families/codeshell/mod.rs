//! CodeShell, by WisdomShell.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::CODESHELL], graphs: graph::GRAPHS, ..Family::EMPTY };
