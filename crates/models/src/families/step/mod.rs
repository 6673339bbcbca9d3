//! Step 3.5 and 3.7, by StepFun.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::STEP35], ..Family::EMPTY };
