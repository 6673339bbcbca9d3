//! EAGLE 3: one-layer draft models for models of many vendors.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::EAGLE3], drafts: graph::DRAFTS, ..Family::EMPTY };
