//! Persimmon, by Adept.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::PERSIMMON], graphs: graph::GRAPHS, ..Family::EMPTY };
