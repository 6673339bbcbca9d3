//! Seed OSS, by ByteDance.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::SEED_OSS], graphs: graph::GRAPHS, ..Family::EMPTY };
