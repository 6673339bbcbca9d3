//! Stable Diffusion, by Stability AI: the UNets of 1.x and XL, and the transformer of 3.x.

mod adapter_names;
pub mod diffusers_names;
pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family =
    Family { diffusion: &[diffusion::SD1, diffusion::SDXL, diffusion::SD3], ..Family::EMPTY };
