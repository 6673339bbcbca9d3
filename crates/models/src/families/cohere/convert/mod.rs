//! Conversion of the models of this family, one file for each.

pub mod cohere2;
pub mod cohere2moe;
pub mod command_r;
