//! Projectors of this family, one file for each.

pub mod omni;
pub mod qwen2vl;
pub mod qwen3vl;
pub mod tts;
