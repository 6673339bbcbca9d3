//! Conversion of the models of this family, one file for each.

pub mod hunyuan;
pub mod hy_v3;
pub mod hy_v4;
