//! Solar Open, by Upstage.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family =
    Family { arches: &[convert::SOLAR_OPEN], departures: &[convert::ROTATED], ..Family::EMPTY };
