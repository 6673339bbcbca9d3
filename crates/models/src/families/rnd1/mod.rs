//! RND1, by Radical Numerics: a diffusion model.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::RND1], graphs: graph::GRAPHS, ..Family::EMPTY };
