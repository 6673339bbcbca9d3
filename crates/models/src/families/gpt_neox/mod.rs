//! GPT-J and GPT-NeoX, by EleutherAI.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[convert::gptj::GPTJ, convert::gptneox::GPTNEOX],
    graphs: graph::GRAPHS,
    ..Family::EMPTY
};
