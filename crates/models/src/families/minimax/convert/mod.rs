//! Conversion of the models of this family, one file for each.

pub mod minimax;
pub mod minimax_01;
pub mod minimax_m2;
pub mod minimax_m3;
