//! Conversion of the models of this family, one file for each.

pub mod internlm2;
pub mod internlm3;
