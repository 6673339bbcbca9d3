//! GPT-2, by OpenAI.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::GPT2], ..Family::EMPTY };
