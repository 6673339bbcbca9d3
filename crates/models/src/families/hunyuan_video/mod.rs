//! HunyuanVideo, by Tencent.

mod adapter_names;
pub mod diffusers_names;
pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family =
    Family { diffusion: &[diffusion::HYVID, diffusion::HYVID_OF_COMFYUI], ..Family::EMPTY };
