//! AuraFlow, by fal.

pub mod diffusion;

use crate::family::Family;

/// Its architectures.
pub const FAMILY: Family = Family { diffusion: &[diffusion::AURA], ..Family::EMPTY };
