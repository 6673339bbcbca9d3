//! InternLM, by Shanghai AI Laboratory.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family =
    Family { arches: &[convert::internlm2::INTERNLM2, convert::internlm3::INTERNLM3], ..Family::EMPTY };
