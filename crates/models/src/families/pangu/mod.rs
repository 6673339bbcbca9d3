//! openPangu Embedded, by Huawei.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::PANGU], graphs: graph::GRAPHS, ..Family::EMPTY };
