//! Flux, by Black Forest Labs, and models that were derived from it (Chroma).

pub mod adapter_names;
pub mod diffusers_names;
pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family = Family { diffusion: &[diffusion::FLUX], ..Family::EMPTY };
