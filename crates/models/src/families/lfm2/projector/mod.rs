//! Projectors of this family, one file for each.

pub mod audio;
pub mod d1_omni;
pub mod vl;
