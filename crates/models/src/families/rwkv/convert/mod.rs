//! Conversion of the models of this family, one file for each.

pub mod rwkv;
pub mod rwkv6;
pub mod rwkv7;
