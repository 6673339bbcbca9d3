//! Dream, by HKU: a diffusion model.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::DREAM], graphs: graph::GRAPHS, ..Family::EMPTY };
