//! LLaVA with the vision tower of Pixtral: projectors for models of the llama and mistral families.

pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { projectors: &[projector::PIXTRAL], ..Family::EMPTY };
