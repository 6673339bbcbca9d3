//! MiniCPM, by OpenBMB: text, and images in MiniCPM-V.

pub mod convert;
pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[convert::minicpm::MINICPM, convert::minicpm3::MINICPM3],
    projectors: &[projector::MINICPMV],
    ..Family::EMPTY
};
