//! Parts that families share.

pub mod epsilon;
pub mod gating;
pub mod latent;
pub mod patch_tower;
pub mod sinusoids;
