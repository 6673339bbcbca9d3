//! Decision models, which choose among the options of a question: Clef, Lev, Nimble, OpenJev and pplx-decider on Qwen 3.5, D1
//! on LFM2-VL, D1-Omni on LFM2, Laya and Julia on ModernBERT.

pub mod convert;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[
        convert::clef::CLEF,
        convert::d1::D1,
        convert::d1_omni::D1_OMNI,
        convert::laya::JULIA,
        convert::laya::LAYA,
        convert::lev::LEV,
        convert::nimble::NIMBLE,
        convert::openjev::OPENJEV,
        convert::pplx_decider::PPLX_DECIDER,
    ],
    projectors: &[projector::PPLX_DECIDER],
    ..Family::EMPTY
};
