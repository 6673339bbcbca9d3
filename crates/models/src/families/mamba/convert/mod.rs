//! Conversion of the models of this family, one file for each.

pub mod mamba;
pub mod mamba2;
