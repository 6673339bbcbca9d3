//! Conversion of the models of this family, one file for each.

pub mod minicpm;
pub mod minicpm3;
