//! Conversion of the models of this family, one file for each.

pub mod granite;
pub mod granite_swa;
pub mod granite_switch;
pub mod granitehybrid;
pub mod granitemoe;
