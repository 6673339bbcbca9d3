//! Conversion of the models of this family, one file for each.

pub mod gpt2;
pub mod rugpt3xl;
