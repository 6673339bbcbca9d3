//! Conversion of the models of this family, one file for each.

pub mod gptj;
pub mod gptneox;
