//! Conversion of the models of this family, one file for each.

pub mod ernie4_5;
pub mod ernie4_5_moe;
