//! Bamba, by IBM: a hybrid of state-space and attention layers.

pub mod convert;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::BAMBA], ..Family::EMPTY };
