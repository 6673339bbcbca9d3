//! Parts that families share.

pub mod latent;
