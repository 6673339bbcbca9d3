//! Seed OSS, by ByteDance.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::SEED_OSS], graphs: graph::GRAPHS, ..Family::EMPTY };
