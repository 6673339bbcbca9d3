//! Projectors of this family, one file for each.

pub mod audio;
pub mod vl;
