//! Projectors of this family, one file for each.

pub mod dots3note;
pub mod dotsocr;
