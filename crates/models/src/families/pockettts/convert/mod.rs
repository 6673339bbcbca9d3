//! Conversion of the text model, and the config that checkpoints lack.

pub mod config;
pub mod pockettts;
