//! AuraFlow, by fal.

mod adapter_names;
pub mod diffusers_names;
pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family = Family { diffusion: &[diffusion::AURA], ..Family::EMPTY };
