//! Projectors of this family, one file for each.

pub mod ocr;
pub mod v4;
