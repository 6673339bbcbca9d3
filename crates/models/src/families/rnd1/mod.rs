//! RND1, by Radical Numerics: a diffusion model.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::RND1], ..Family::EMPTY };
