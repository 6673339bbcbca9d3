//! Conversion of the models of this family, one file for each.

pub mod falcon;
pub mod falcon_h1;
