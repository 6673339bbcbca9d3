//! Idefics 3 and SmolVLM, by Hugging Face: vision projectors for models of the llama family.

pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { projectors: &[projector::IDEFICS3], ..Family::EMPTY };
