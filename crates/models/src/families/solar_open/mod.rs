//! Solar Open, by Upstage.

pub mod convert;

use crate::family::Family;

pub const FAMILY: Family =
    Family { arches: &[convert::SOLAR_OPEN], departures: &[convert::ROTATED], ..Family::EMPTY };
