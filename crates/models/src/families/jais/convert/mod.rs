//! Conversion of the models of this family, one file for each.

pub mod jais;
pub mod jais2;
