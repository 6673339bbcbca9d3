//! Cosmos Predict2, by NVIDIA, and Anima, which adds an adapter for text.

pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family = Family { diffusion: &[diffusion::COSMOS, diffusion::ANIMA], ..Family::EMPTY };
