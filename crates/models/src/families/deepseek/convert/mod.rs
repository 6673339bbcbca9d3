//! Conversion of the models of this family, one file for each.

pub mod deepseek;
pub mod deepseek2;
pub mod deepseek2_ocr;
pub mod deepseek32;
pub mod deepseek4;
