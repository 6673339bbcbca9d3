//! HRM Text, by Sapient.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::HRM_TEXT], graphs: graph::GRAPHS, ..Family::EMPTY };
