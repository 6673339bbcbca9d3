//! Projectors of this family, one file for each.

pub mod qformer;
pub mod speech;
pub mod vision;
