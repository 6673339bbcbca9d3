//! Conversion of the models of this family, one file for each.

pub mod kimi_k3;
pub mod kimi_linear;
