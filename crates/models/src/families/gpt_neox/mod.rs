//! GPT-J and GPT-NeoX, by EleutherAI.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family =
    Family { arches: &[convert::gptj::GPTJ, convert::gptneox::GPTNEOX], ..Family::EMPTY };
