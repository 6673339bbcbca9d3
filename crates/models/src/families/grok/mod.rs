//! Grok, by xAI.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::GROK], graphs: graph::GRAPHS, ..Family::EMPTY };
