//! Conversion of the models of this family, one file for each.

pub mod nemotron;
pub mod nemotron_h;
