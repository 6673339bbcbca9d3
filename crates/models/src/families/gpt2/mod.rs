//! GPT-2, by OpenAI.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family =
    Family { arches: &[convert::GPT2], graphs: graph::GRAPHS, ..Family::EMPTY };
