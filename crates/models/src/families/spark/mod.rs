//! Spark X2.5, by iFlytek.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::SPARK2_5], graphs: graph::GRAPHS, ..Family::EMPTY };
