//! Conversion of the models of this family, one file for each.

pub mod helium;
pub mod llama;
pub mod llama4;
pub mod llama_embed;
pub mod native;
pub mod vocab;
