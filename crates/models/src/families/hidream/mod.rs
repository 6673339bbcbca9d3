//! HiDream, by HiDream.ai.

pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family = Family { diffusion: &[diffusion::HIDREAM], ..Family::EMPTY };
