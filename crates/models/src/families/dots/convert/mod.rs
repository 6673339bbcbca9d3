//! Conversion of the models of this family, one file for each.

pub mod dots1;
pub mod dots3;
