//! gpt-oss, by OpenAI.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::GPT_OSS], ..Family::EMPTY };
