//! Conversion of the models of this family, one file for each.

pub mod bailingmoe;
pub mod bailingmoe2;
pub mod bailingmoe3;
pub mod sarvam;
