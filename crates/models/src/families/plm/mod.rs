//! PLM: a small model with latent attention.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::PLM], graphs: graph::GRAPHS, ..Family::EMPTY };
