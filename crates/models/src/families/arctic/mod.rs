//! Arctic, by Snowflake.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::ARCTIC], graphs: graph::GRAPHS, ..Family::EMPTY };
