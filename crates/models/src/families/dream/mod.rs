//! Dream, by HKU: a diffusion model.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::DREAM], graphs: graph::GRAPHS, ..Family::EMPTY };
