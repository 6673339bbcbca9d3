//! Conversion of the models of this family, one file for each.

pub mod mistral3;
pub mod mistral4;
pub mod mistral_large;
