//! Conversion of the models of this family, one file for each.

pub mod exaone;
pub mod exaone4;
pub mod exaone_moe;
