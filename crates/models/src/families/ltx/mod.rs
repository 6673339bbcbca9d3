//! LTX-Video and LTX-2, by Lightricks.

mod adapter_names;
pub mod diffusers_names;
pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family = Family { diffusion: &[diffusion::LTXV, diffusion::LTX2], ..Family::EMPTY };
