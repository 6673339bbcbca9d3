//! Parts that families share.

pub mod latent;
pub mod patch_tower;
pub mod sinusoids;
