//! SmolLM 3, by Hugging Face.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::SMOLLM3], graphs: graph::GRAPHS, ..Family::EMPTY };
