//! Conversion of the models of this family, one file for each.

pub mod audio_tokenizer;
pub mod lfm2;
pub mod lfm2_embed;
pub mod lfm2moe;
