//! PLM: a small model with latent attention.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::PLM], ..Family::EMPTY };
