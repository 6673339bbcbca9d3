//! Conversion of the models of this family, one file for each.

pub mod plamo;
pub mod plamo2;
pub mod plamo3;
