//! Qwen-Image, by Alibaba, and Mage-Flow, by Microsoft, with the same tensors.

pub mod diffusion;

use crate::family::Family;

pub const FAMILY: Family =
    Family { diffusion: &[diffusion::QWEN_IMAGE, diffusion::MAGE_FLOW], ..Family::EMPTY };
