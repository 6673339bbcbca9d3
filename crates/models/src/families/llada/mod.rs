//! LLaDA, by inclusionAI: diffusion models.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family =
    Family { arches: &[convert::LLADA, convert::LLADA_MOE], graphs: graph::GRAPHS, ..Family::EMPTY };
