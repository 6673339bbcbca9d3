//! Projectors of this family, one file for each.

pub mod gemma3;
pub mod gemma4;
pub mod gemma4_audio;
pub mod gemma4_unified;
