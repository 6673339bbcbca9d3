//! Projectors of this family, one file for each.

pub mod kimik25;
pub mod kimivl;
