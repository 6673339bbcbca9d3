//! Conversion of the models of this family, one file for each.

pub mod qwen;
pub mod qwen2;
pub mod qwen2moe;
pub mod qwen2vl;
pub mod qwen3;
pub mod qwen35;
pub mod qwen3moe;
pub mod qwen3next;
pub mod qwen3vl;
pub mod qwen4exp;
