//! Falcon, by TII.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family =
    Family { arches: &[convert::falcon::FALCON, convert::falcon_h1::FALCON_H1], projectors: &[] };
