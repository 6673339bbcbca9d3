//! Nanbeige 4.2, by Nanbeige.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::NANBEIGE], projectors: &[] };
