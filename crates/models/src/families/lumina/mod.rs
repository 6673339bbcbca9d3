//! Lumina Image 2, by Alpha-VLLM, and Z-Image, by Alibaba.

mod adapter_names;
pub mod diffusers_names;
pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family = Family { diffusion: &[diffusion::LUMINA2], ..Family::EMPTY };
