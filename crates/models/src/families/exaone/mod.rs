//! EXAONE, by LG: text, and images in EXAONE 4.5.

pub mod convert;
pub mod graph;
pub mod projector;
pub mod vision;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[
        convert::exaone::EXAONE,
        convert::exaone4::EXAONE4,
        convert::exaone4::EXAONE4_5,
        convert::exaone_moe::EXAONE_MOE,
    ],
    departures: &[crate::parts::epsilon::STATED],
    projectors: &[projector::EXAONE4_5],
    graphs: graph::GRAPHS,
    towers: vision::TOWERS,
    ..Family::EMPTY
};
