//! Conversion of the models of this family, one file for each.

pub mod starcoder;
pub mod starcoder2;
