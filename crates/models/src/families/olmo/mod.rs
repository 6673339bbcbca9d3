//! OLMo, by the Allen Institute for AI.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family =
    Family { arches: &[convert::olmo::OLMO, convert::olmo2::OLMO2, convert::olmoe::OLMOE], projectors: &[] };
