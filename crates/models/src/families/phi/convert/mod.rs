//! Conversion of the models of this family, one file for each.

pub mod phi2;
pub mod phi3;
pub mod phimoe;
