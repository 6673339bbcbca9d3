//! K2-Horizon, by IFM.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::K2_HORIZON], graphs: graph::GRAPHS, ..Family::EMPTY };
