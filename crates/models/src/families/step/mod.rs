//! Step 3.5 and 3.7, by StepFun.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::STEP35], graphs: graph::GRAPHS, ..Family::EMPTY };
