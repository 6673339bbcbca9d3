//! Decision models, which choose among the options of a question: Clef, OpenJev and pplx-decider on Qwen 3.5.

pub mod convert;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::clef::CLEF, convert::openjev::OPENJEV, convert::pplx_decider::PPLX_DECIDER],
    projectors: &[projector::PPLX_DECIDER],
    ..Family::EMPTY
};
