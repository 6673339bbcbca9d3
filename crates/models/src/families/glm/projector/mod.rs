//! Projectors of this family, one file for each.

pub mod glm4v;
pub mod glmasr;
