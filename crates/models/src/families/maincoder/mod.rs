//! Maincoder, by Maincode.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::MAINCODER], graphs: graph::GRAPHS, ..Family::EMPTY };
