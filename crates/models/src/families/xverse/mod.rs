//! Xverse, by Shenzhen Yuanxiang.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::XVERSE], graphs: graph::GRAPHS, ..Family::EMPTY };
