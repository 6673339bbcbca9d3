//! LightOnOCR, by LightOn: the vision projector for a model of the qwen family.

pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { projectors: &[projector::LIGHTONOCR], ..Family::EMPTY };
