//! Janus, by DeepSeek: the vision projector for a model of the llama family.

pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { projectors: &[projector::JANUS], ..Family::EMPTY };
