//! Krea 2, by Krea.

pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family = Family { diffusion: &[diffusion::KREA2], ..Family::EMPTY };
