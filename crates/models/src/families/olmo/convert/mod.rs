//! Conversion of the models of this family, one file for each.

pub mod olmo;
pub mod olmo2;
pub mod olmoe;
