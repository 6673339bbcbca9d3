//! Kimi, by Moonshot: text, and images in Kimi VL and K2.5.

pub mod convert;
pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[convert::kimi_k3::KIMI_K3, convert::kimi_linear::KIMI_LINEAR],
    projectors: &[projector::kimik25::KIMIK25, projector::kimivl::KIMIVL],
    ..Family::EMPTY
};
